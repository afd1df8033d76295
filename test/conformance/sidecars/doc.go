// Package sidecars pins the CSI sidecars that the tests of the module above build and run.
package sidecars
