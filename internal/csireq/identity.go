package csireq

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var _ csi.IdentityServer = (*Identity)(nil)

// Identity is the identity service of a driver with a controller service.
type Identity struct {
	csi.UnimplementedIdentityServer

	// Name is the driver's name, such as "array.csi.volsim.dev".
	Name string
	// Version is the driver's own version, not that of CSI.
	Version string
	// Topology is set if not every node can use every volume.
	Topology bool
	// Groups is set if there is a group controller service.
	Groups bool
	// Ready returns nil if the driver is ready; a nil function means always ready.
	Ready func() error
}

// GetPluginInfo returns name and version.
func (i *Identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.Name, VendorVersion: i.Version}, nil
}

// GetPluginCapabilities returns CONTROLLER_SERVICE, the optional services, and online expansion.
func (i *Identity) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if i.Topology {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	if i.Groups {
		services = append(services, csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE)
	}
	response := &csi.GetPluginCapabilitiesResponse{}
	for _, each := range services {
		response.Capabilities = append(response.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: each}},
		})
	}
	online := &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}
	response.Capabilities = append(response.Capabilities, &csi.PluginCapability{
		Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: online},
	})
	return response, nil
}

// Probe returns FailedPrecondition with Ready's error. A ready driver omits "ready", which CSI
// defines as ready.
func (i *Identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	if i.Ready != nil {
		if err := i.Ready(); err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
	}
	return &csi.ProbeResponse{}, nil
}
