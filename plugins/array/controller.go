package array

import (
	"context"
	"maps"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/volsim/volsim/internal/csireq"
)

// controller is the controller service. Its methods are CSI's.
type controller struct {
	csi.UnimplementedControllerServer
	array *Array
}

func (c *controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	return controllerCapabilities, nil
}

// SharesMessages declares that messages need not be copied: see csi.Direct.
func (c *controller) SharesMessages() {}

// controllerCapabilities is shared by all arrays; it is only read.
var controllerCapabilities = csireq.ControllerCapabilities(
	csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
	csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
	csi.ControllerServiceCapability_RPC_PUBLISH_READONLY,
	csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
	csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
	csi.ControllerServiceCapability_RPC_GET_VOLUME,
	csi.ControllerServiceCapability_RPC_GET_CAPACITY,
	csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
	csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
	csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
	csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
	csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
)

// CreateVolume returns OutOfRange for a volume larger than the whole array, and ResourceExhausted
// for one that exceeds the free capacity. A copy has at least the size of its source.
func (c *controller) CreateVolume(
	_ context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	a := c.array
	if err := a.offer.CheckCreate(request); err != nil {
		return nil, err
	}
	if err := checkSettings(request.GetMutableParameters()); err != nil {
		return nil, err
	}
	if _, err := (content{}).sizes(a).Choose(request.GetCapacityRange()); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := csireq.VolumeID(request.GetName())
	if old := a.volumes[id]; old != nil {
		if err := csireq.CheckExisting(old.name, old.sizeBytes, request.GetCapacityRange()); err != nil {
			return nil, err
		}
		if err := old.checkSource(request.GetVolumeContentSource()); err != nil {
			return nil, err
		}
		return &csi.CreateVolumeResponse{Volume: old.csiVolume()}, nil
	}
	from, err := a.contentOf(request.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}
	size, err := from.sizes(a).Choose(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if free := a.freeBytes(); size > free {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the array has %d bytes free, the volume needs %d: delete volumes or give the array more capacity", free, size)
	}
	created := &volume{
		id: id, name: request.GetName(), sizeBytes: size, source: from.id,
		fsBytes: from.fsBytes, growsOnStage: 0 < from.fsBytes && from.fsBytes < size,
		tree: from.copyTree(), attached: map[string]attachment{}, settings: maps.Clone(request.GetMutableParameters()),
	}
	a.volumes[id] = created
	return &csi.CreateVolumeResponse{Volume: created.csiVolume()}, nil
}

// csiVolume returns v as CSI describes a volume.
func (v *volume) csiVolume() *csi.Volume {
	return &csi.Volume{VolumeId: v.id, CapacityBytes: v.sizeBytes, ContentSource: v.contentSource()}
}

func (c *controller) DeleteVolume(
	_ context.Context, request *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	a := c.array
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.volumes[request.GetVolumeId()]; v != nil && len(v.attached) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %v", v.id, v.nodes())
	}
	delete(a.volumes, request.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}

func (c *controller) ControllerPublishVolume(
	_ context.Context, request *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	a := c.array
	if err := a.offer.CheckControllerPublish(request); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v, err := a.find(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if !a.nodes[request.GetNodeId()] {
		return nil, status.Errorf(codes.NotFound, "no node %q is connected to this array", request.GetNodeId())
	}
	wanted := attachment{
		readOnly: request.GetReadonly() || csireq.IsReadOnly(request.GetVolumeCapability()),
		mode:     request.GetVolumeCapability().GetAccessMode().GetMode(),
	}
	if err := v.checkAttachment(request.GetNodeId(), wanted); err != nil {
		return nil, err
	}
	if _, ok := v.attached[request.GetNodeId()]; !ok {
		if err := a.checkVolumesPerNode(request.GetNodeId()); err != nil {
			return nil, err
		}
	}
	v.attached[request.GetNodeId()] = wanted
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{diskKey: v.id}}, nil
}

// checkAttachment returns an error if v may not be attached to a node as wanted in addition to its
// existing attachments.
func (v *volume) checkAttachment(nodeID string, wanted attachment) error {
	for _, other := range v.nodes() {
		has := v.attached[other]
		switch {
		case other == nodeID && has != wanted:
			return status.Errorf(codes.AlreadyExists, "volume %s is attached to %s as %s, read-only: %v",
				v.id, other, has.mode, has.readOnly)
		case other == nodeID:
			continue
		case !csireq.IsMultiNode(has.mode) || !csireq.IsMultiNode(wanted.mode):
			return status.Errorf(codes.FailedPrecondition, "volume %s is for one node and attached to %s", v.id, other)
		case bothWrite(has, wanted):
			return status.Errorf(codes.FailedPrecondition, "volume %s has its single writer on %s", v.id, other)
		}
	}
	return nil
}

// bothWrite reports whether two attachments violate the single-writer mode.
func bothWrite(a, b attachment) bool {
	const single = csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
	return (a.mode == single || b.mode == single) && !a.readOnly && !b.readOnly
}

func (c *controller) ControllerUnpublishVolume(
	_ context.Context, request *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	a := c.array
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.volumes[request.GetVolumeId()]; v != nil {
		if request.GetNodeId() == "" {
			clear(v.attached)
		}
		delete(v.attached, request.GetNodeId())
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (c *controller) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := csireq.CheckValidate(request); err != nil {
		return nil, err
	}
	a := c.array
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.find(request.GetVolumeId()); err != nil {
		return nil, err
	}
	return a.offer.Validate(request), nil
}

func (c *controller) ListVolumes(_ context.Context, request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if err := csireq.CheckText(request); err != nil {
		return nil, err
	}
	a := c.array
	a.mu.Lock()
	defer a.mu.Unlock()
	ids, next, err := csireq.Page(a.ids(), request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	response := &csi.ListVolumesResponse{NextToken: next}
	for _, id := range ids {
		v := a.volumes[id]
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: v.csiVolume(),
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: v.nodes()},
		})
	}
	return response, nil
}

// ControllerGetVolume returns the information of ListVolumes for one volume.
func (c *controller) ControllerGetVolume(
	_ context.Context, request *csi.ControllerGetVolumeRequest,
) (*csi.ControllerGetVolumeResponse, error) {
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	a := c.array
	a.mu.Lock()
	defer a.mu.Unlock()
	v, err := a.find(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: v.csiVolume(),
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{PublishedNodeIds: v.nodes()},
	}, nil
}

func (c *controller) GetCapacity(_ context.Context, request *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if err := csireq.CheckText(request); err != nil {
		return nil, err
	}
	a := c.array
	if wanted := request.GetVolumeCapabilities(); len(wanted) > 0 && a.offer.Check(wanted...) != nil {
		return &csi.GetCapacityResponse{}, nil // no capacity for unsupported volumes
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	free := a.freeBytes()
	return &csi.GetCapacityResponse{AvailableCapacity: free, MaximumVolumeSize: wrapperspb.Int64(free)}, nil
}
