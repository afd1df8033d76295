package arrayhealth

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

// Services are an array's services with the health calls. Create them with New.
type Services struct{ array *array.Array }

// New returns the services of an array.
func New(disks *array.Array) *Services { return &Services{array: disks} }

// Controller returns the array's controller service.
func (s *Services) Controller() csi.ControllerServer {
	return &controller{ControllerServer: s.array.Controller(), array: s.array}
}

// Node returns the array's node service of a node; see array.Array.Node.
func (s *Services) Node(nodeID string, fs *nodefs.Memory) csi.NodeServer {
	return &nodeService{NodeServer: s.array.Node(nodeID, fs), array: s.array, id: nodeID, fs: fs}
}

// controller is the array's controller service with the health calls.
type controller struct {
	csi.ControllerServer
	array *array.Array
}

func (c *controller) ControllerGetCapabilities(
	ctx context.Context, request *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	response, err := c.ControllerServer.ControllerGetCapabilities(ctx, request)
	if err != nil {
		return nil, err
	}
	response = proto.CloneOf(response) // all arrays share it
	response.Capabilities = append(response.Capabilities, csireq.ControllerCapabilities(
		csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH,
		csi.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH,
	).GetCapabilities()...)
	return response, nil
}

// ControllerGetVolumeHealth returns the conditions of one volume.
func (c *controller) ControllerGetVolumeHealth(
	_ context.Context, request *csi.ControllerGetVolumeHealthRequest,
) (*csi.ControllerGetVolumeHealthResponse, error) {
	v, err := find(c.array, request)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeHealthResponse{VolumeHealth: csiHealth(v.ID, c.array.Conditions(v.ID))}, nil
}

// ControllerListVolumeHealth lists the unhealthy volumes.
func (c *controller) ControllerListVolumeHealth(
	_ context.Context, request *csi.ControllerListVolumeHealthRequest,
) (*csi.ControllerListVolumeHealthResponse, error) {
	if err := csireq.CheckText(request); err != nil {
		return nil, err
	}
	unhealthy := slices.DeleteFunc(c.array.IDs(), func(id string) bool { return len(c.array.Conditions(id)) == 0 })
	page, next, err := csireq.Page(unhealthy, request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	response := &csi.ControllerListVolumeHealthResponse{NextToken: next}
	for _, id := range page {
		if conditions := c.array.Conditions(id); len(conditions) > 0 { // still
			response.Entries = append(response.Entries, csiHealth(id, conditions))
		}
	}
	return response, nil
}

// find returns the volume of a request, or NotFound.
func find(disks *array.Array, request csireq.VolumeRequest) (array.Volume, error) {
	if err := csireq.RequireVolumeID(request); err != nil {
		return array.Volume{}, err
	}
	v, ok := disks.Volume(request.GetVolumeId())
	if !ok {
		return array.Volume{}, status.Errorf(codes.NotFound, "no volume %q on this array", request.GetVolumeId())
	}
	return v, nil
}

// csiHealth returns conditions as CSI describes them. Each status and reason appears once.
func csiHealth(id string, conditions []csireq.Condition) *csi.VolumeHealth {
	health := &csi.VolumeHealth{VolumeId: id}
	for i, each := range conditions {
		if slices.ContainsFunc(conditions[:i], func(c csireq.Condition) bool {
			return c.Status == each.Status && c.Reason == each.Reason
		}) {
			continue
		}
		health.HealthStatuses = append(health.HealthStatuses, &csi.VolumeHealth_VolumeHealthEntry{
			Status: csi.VolumeHealthErrorType(csi.VolumeHealthErrorType_value[each.Status]),
			Reason: each.Reason, Message: each.Message,
		})
	}
	return health
}
