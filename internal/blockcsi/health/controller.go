package health

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/csireq"
)

// controller is the driver's controller service with the health calls.
type controller struct {
	csi.ControllerServer
	services *Services
}

func (c *controller) ControllerGetCapabilities(
	ctx context.Context, request *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	response, err := c.ControllerServer.ControllerGetCapabilities(ctx, request)
	if err == nil {
		response.Capabilities = append(response.Capabilities, csireq.ControllerCapabilities(
			csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH,
			csi.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH,
		).GetCapabilities()...)
	}
	return response, err
}

// ControllerGetVolumeHealth checks one volume in any state.
func (c *controller) ControllerGetVolumeHealth(
	ctx context.Context, request *csi.ControllerGetVolumeHealthRequest,
) (*csi.ControllerGetVolumeHealthResponse, error) {
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	state, err := c.services.driver.Inspect(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeHealthResponse{VolumeHealth: csiHealth(state.ID,
		c.services.volumeFindings(ctx, state))}, nil
}

// ControllerListVolumeHealth checks all volumes and lists the unhealthy ones.
func (c *controller) ControllerListVolumeHealth(
	ctx context.Context, request *csi.ControllerListVolumeHealthRequest,
) (*csi.ControllerListVolumeHealthResponse, error) {
	if err := csireq.CheckText(request); err != nil {
		return nil, err
	}
	all, err := c.services.driver.InspectAll(ctx)
	if err != nil {
		return nil, err
	}
	unhealthy := map[string]*csi.VolumeHealth{}
	var ids []string
	for _, state := range all {
		if findings := c.services.volumeFindings(ctx, state); len(findings) > 0 {
			unhealthy[state.ID] = csiHealth(state.ID, findings)
			ids = append(ids, state.ID)
		}
	}
	page, next, err := csireq.Page(slices.Compact(ids), request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	response := &csi.ControllerListVolumeHealthResponse{NextToken: next}
	for _, id := range page {
		response.Entries = append(response.Entries, unhealthy[id])
	}
	return response, nil
}
