// Package scripted makes a driver and the API server fail on command, for the tests of the sidecars.
package scripted
