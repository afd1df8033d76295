// Package scripted injects scripted faults into a driver connection and an API client, for the
// tests of the sidecars.
package scripted
