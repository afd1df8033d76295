// Package sidecars pins the versions of the CSI sidecars that the tests of the parent module build
// and run.
package sidecars
