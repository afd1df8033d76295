package health

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

// nodeService is the driver's node service with the health calls.
type nodeService struct {
	csi.NodeServer
	services *Services
	id       string
	fs       *nodefs.Real
}

func (n *nodeService) NodeGetCapabilities(
	ctx context.Context, request *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	response, err := n.NodeServer.NodeGetCapabilities(ctx, request)
	if err == nil {
		response.Capabilities = append(response.Capabilities, csireq.NodeCapabilities(
			csi.NodeServiceCapability_RPC_GET_VOLUME_HEALTH,
			csi.NodeServiceCapability_RPC_GET_STORAGE_HEALTH,
		).GetCapabilities()...)
	}
	return response, err
}

// NodeGetVolumeHealth checks a volume, and the paths at which it should be staged and published.
func (n *nodeService) NodeGetVolumeHealth(
	ctx context.Context, request *csi.NodeGetVolumeHealthRequest,
) (*csi.NodeGetVolumeHealthResponse, error) {
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	state, err := n.services.driver.Inspect(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	findings := n.services.volumeFindings(ctx, state)
	for _, at := range []string{request.GetStagingTargetPath(), request.GetVolumePublishPath()} {
		if at != "" {
			findings = append(findings, n.pathFindings(state, at)...)
		}
	}
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: csiHealth(state.ID, findings)}, nil
}

// pathFindings checks that a volume is at a path: mounted, or as its device node there or in that
// staging directory.
func (n *nodeService) pathFindings(state blockcsi.VolumeState, at string) []finding {
	if state.Attachment == nil || state.Attachment.Node != n.id {
		return []finding{{
			inaccessible, "NotAttached", fmt.Sprintf("volume %s is not attached to node %s", state.ID, n.id),
		}}
	}
	mount, mounted, err := csireq.MountAt(n.fs, at)
	if err == nil && mounted && mount.Source == state.Attachment.Device {
		return nil
	}
	var wanted string
	if err == nil {
		wanted, err = n.fs.DeviceOf(state.Attachment.Device)
	}
	for _, file := range []string{at, csireq.StagedDevice(at)} {
		if found, isDevice, fileErr := csireq.DeviceAt(n.fs, file); err == nil && fileErr == nil && isDevice &&
			found == wanted {
			return nil
		}
	}
	if err != nil {
		return []finding{{inaccessible, "NotMounted", fmt.Sprintf("check %s: %s", at, status.Convert(err).Message())}}
	}
	return []finding{{inaccessible, "NotMounted", fmt.Sprintf("volume %s is not at %s", state.ID, at)}}
}

// NodeGetStorageHealth checks the pools whose volumes this node can use.
func (n *nodeService) NodeGetStorageHealth(
	ctx context.Context, _ *csi.NodeGetStorageHealthRequest,
) (*csi.NodeGetStorageHealthResponse, error) {
	response := &csi.NodeGetStorageHealthResponse{}
	say := func(how csi.StorageHealthErrorType, reason, message string) {
		response.BackendHealth = append(response.BackendHealth, &csi.NodeGetStorageHealthResponse_StorageBackendHealth{
			Status: how, Reason: reason, Message: message,
		})
	}
	if _, err := n.services.driver.Identity().Probe(ctx, &csi.ProbeRequest{}); err != nil {
		say(csi.StorageHealthErrorType_STORAGE_UNREACHABLE, "DriverUnusable", status.Convert(err).Message())
	}
	for _, pool := range n.services.driver.Pools() {
		if pool.Node() != "" && pool.Node() != n.id {
			continue
		}
		capacity, err := pool.Capacity(ctx, nil)
		switch {
		case err != nil:
			say(csi.StorageHealthErrorType_STORAGE_UNREACHABLE, "PoolUnreadable", status.Convert(err).Message())
		case capacity.FreeBytes < capacity.MinVolumeBytes:
			say(csi.StorageHealthErrorType_STORAGE_DEGRADED, "PoolFull",
				fmt.Sprintf("%d bytes are free, less than the smallest volume of %d", capacity.FreeBytes,
					capacity.MinVolumeBytes))
		case capacity.FreeBytes < n.services.cfg.LowBytes:
			say(csi.StorageHealthErrorType_STORAGE_DEGRADED, "PoolNearlyFull",
				fmt.Sprintf("%d bytes are free", capacity.FreeBytes))
		}
	}
	return response, nil
}
