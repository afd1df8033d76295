// Package csireq checks and answers CSI requests for the storage drivers of this module.
//
//	features := csireq.Features{Block: true}
//	if err := features.CheckCreate(request); err != nil {
//		return nil, err // a gRPC status
//	}
//	size, err := csireq.Sizes{Default: 1 << 30}.Choose(request.GetCapacityRange())
//
// It knows which arguments are required, which volume capabilities a driver supports, the size for
// a capacity range, the ID for a volume's name and the pages of a list. It implements the bind
// mount of every NodePublishVolume, of a directory or of a device's node. A driver declares its
// optional features in [Features].
//
// Each function returns either a plain value or a gRPC status error with the code that the CSI
// specification requires, for a driver to return. The package keeps no state; everything may be
// used concurrently.
//
// What it does not do: topology, which is the driver's.
//
// Upstream: the Container Storage Interface.
package csireq
