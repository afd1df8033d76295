// Package csireq is what our storage drivers share in reading CSI requests:
// which arguments must be there, which volume capabilities a driver offers,
// what size a capacity range means, how a volume's id comes from its name, how
// a list is cut into pages, and the bind mount that every NodePublishVolume is:
// of a directory, or of the node of a device.
//
// Each function returns either a plain value or a gRPC status error with the
// code that the CSI specification asks for, ready to be returned by a driver.
// The package keeps no state; everything may be used concurrently.
//
// What a driver offers of snapshots, clones and modification it says in its Offer;
// topology is left to the driver.
package csireq
