// Package driver calls a CSI driver's controller service for the sidecars: it caches the driver's
// capabilities and converts access modes of the Kubernetes API to CSI.
//
//	d := driver.New("disk.example.com", conn)
//	capabilities, err := d.Capabilities(ctx)
//	if err == nil && capabilities[csi.ControllerServiceCapability_RPC_EXPAND_VOLUME] {
//		response, err = d.ControllerExpandVolume(ctx, request)
//	}
//
// What it does not do: it does not call the identity service. A driver that answers Unimplemented
// has no controller service.
package driver
