package arrayhealth

import (
	"context"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

// nodeService is the array's node service of a node with the health calls.
type nodeService struct {
	csi.NodeServer
	array *array.Array
	id    string
	fs    *nodefs.Memory
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

// NodeGetVolumeHealth returns the conditions of a volume, and checks the paths at which it should
// be staged and published.
func (n *nodeService) NodeGetVolumeHealth(
	_ context.Context, request *csi.NodeGetVolumeHealthRequest,
) (*csi.NodeGetVolumeHealthResponse, error) {
	v, err := find(n.array, request)
	if err != nil {
		return nil, err
	}
	conditions := n.array.Conditions(v.ID)
	for _, at := range []string{request.GetStagingTargetPath(), request.GetVolumePublishPath()} {
		if at == "" {
			continue
		}
		if reason, message := n.checkPath(v, at); reason != "" {
			conditions = append(conditions, csireq.Condition{
				Status: csi.VolumeHealthErrorType_INACCESSIBLE.String(), Reason: reason, Message: message,
			})
		}
	}
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: csiHealth(v.ID, conditions)}, nil
}

// checkPath returns why a volume is not at a path, mounted or as its device node there or in that
// staging directory; "" if it is.
func (n *nodeService) checkPath(v array.Volume, at string) (reason, message string) {
	if !slices.Contains(v.AttachedTo, n.id) {
		return "NotAttached", fmt.Sprintf("volume %s is not attached to node %s", v.ID, n.id)
	}
	mount, mounted, err := csireq.MountAt(n.fs, at)
	if err != nil {
		return "NotMounted", fmt.Sprintf("check %s: %s", at, status.Convert(err).Message())
	}
	if mounted && mount.Source == v.ID {
		return "", ""
	}
	for _, file := range []string{at, csireq.StagedDevice(at)} {
		if device, isDevice, err := csireq.DeviceAt(n.fs, file); err == nil && isDevice && device == v.ID {
			return "", ""
		}
	}
	return "NotMounted", fmt.Sprintf("volume %s is not at %s", v.ID, at)
}

// NodeGetStorageHealth returns the conditions of the array.
func (n *nodeService) NodeGetStorageHealth(
	ctx context.Context, _ *csi.NodeGetStorageHealthRequest,
) (*csi.NodeGetStorageHealthResponse, error) {
	conditions := n.array.Conditions("")
	capacity, err := n.array.Controller().GetCapacity(ctx, &csi.GetCapacityRequest{})
	if err != nil {
		return nil, err
	}
	if capacity.GetAvailableCapacity() <= 0 {
		conditions = append(conditions, csireq.Condition{
			Status: csi.StorageHealthErrorType_STORAGE_DEGRADED.String(), Reason: "PoolFull",
			Message: "no space is free: delete volumes or give the array more capacity",
		})
	}
	response := &csi.NodeGetStorageHealthResponse{}
	for _, each := range conditions {
		response.BackendHealth = append(response.BackendHealth, &csi.NodeGetStorageHealthResponse_StorageBackendHealth{
			Status: csi.StorageHealthErrorType(csi.StorageHealthErrorType_value[each.Status]),
			Reason: each.Reason, Message: each.Message,
		})
	}
	return response, nil
}
