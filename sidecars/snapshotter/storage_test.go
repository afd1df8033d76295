package snapshotter_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/volsim/volsim/sim"
)

// storage is a driver of snapshots: it has any volume.
type storage struct {
	csispec.UnimplementedControllerServer
	csispec.UnimplementedGroupControllerServer
	capabilities []csispec.ControllerServiceCapability_RPC_Type

	readyAfter int // requests until a snapshot is ready
	snapshots  map[string]*csispec.Snapshot
	groups     map[string]*csispec.VolumeGroupSnapshot // by handle
	requests   map[string]int                          // for a snapshot or a group, by handle
}

func newStorage() *storage {
	return &storage{
		capabilities: []csispec.ControllerServiceCapability_RPC_Type{
			csispec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csispec.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		},
		snapshots: map[string]*csispec.Snapshot{}, groups: map[string]*csispec.VolumeGroupSnapshot{}, requests: map[string]int{},
	}
}

// handles returns the handles of the snapshots.
func (s *storage) handles() []string { return slices.Sorted(maps.Keys(s.snapshots)) }

// take returns a snapshot, which it takes if it does not exist.
func (s *storage) take(handle, volume, group string) *csispec.Snapshot {
	if s.snapshots[handle] == nil {
		s.snapshots[handle] = &csispec.Snapshot{
			SnapshotId: handle, SourceVolumeId: volume, SizeBytes: 1000, CreationTime: timestamppb.New(sim.Epoch), GroupSnapshotId: group,
		}
	}
	return s.look(handle)
}

// look counts a request for a snapshot, which makes it ready in the end.
func (s *storage) look(handle string) *csispec.Snapshot {
	s.requests[handle]++
	found := s.snapshots[handle]
	found.ReadyToUse = s.requests[handle] > s.readyAfter
	return found
}

func (s *storage) ControllerGetCapabilities(
	context.Context, *csispec.ControllerGetCapabilitiesRequest,
) (*csispec.ControllerGetCapabilitiesResponse, error) {
	response := &csispec.ControllerGetCapabilitiesResponse{}
	for _, c := range s.capabilities {
		response.Capabilities = append(response.Capabilities, &csispec.ControllerServiceCapability{
			Type: &csispec.ControllerServiceCapability_Rpc{Rpc: &csispec.ControllerServiceCapability_RPC{Type: c}},
		})
	}
	return response, nil
}

func (s *storage) CreateSnapshot(
	_ context.Context, request *csispec.CreateSnapshotRequest,
) (*csispec.CreateSnapshotResponse, error) {
	return &csispec.CreateSnapshotResponse{Snapshot: s.take("handle-of-"+request.GetName(), request.GetSourceVolumeId(), "")}, nil
}

func (s *storage) DeleteSnapshot(
	_ context.Context, request *csispec.DeleteSnapshotRequest,
) (*csispec.DeleteSnapshotResponse, error) {
	if found := s.snapshots[request.GetSnapshotId()]; found.GetGroupSnapshotId() != "" {
		return nil, status.Error(codes.InvalidArgument, "a member of a group")
	}
	delete(s.snapshots, request.GetSnapshotId())
	return &csispec.DeleteSnapshotResponse{}, nil
}

func (s *storage) ListSnapshots(
	_ context.Context, request *csispec.ListSnapshotsRequest,
) (*csispec.ListSnapshotsResponse, error) {
	response := &csispec.ListSnapshotsResponse{}
	if s.snapshots[request.GetSnapshotId()] != nil {
		response.Entries = []*csispec.ListSnapshotsResponse_Entry{{Snapshot: s.look(request.GetSnapshotId())}}
	}
	return response, nil
}

func (s *storage) CreateVolumeGroupSnapshot(
	_ context.Context, request *csispec.CreateVolumeGroupSnapshotRequest,
) (*csispec.CreateVolumeGroupSnapshotResponse, error) {
	handle := "handle-of-" + request.GetName()
	if s.groups[handle] == nil {
		made := &csispec.VolumeGroupSnapshot{GroupSnapshotId: handle, CreationTime: timestamppb.New(sim.Epoch)}
		for i, volume := range request.GetSourceVolumeIds() {
			made.Snapshots = append(made.Snapshots, s.take(fmt.Sprintf("%s-%d", handle, i), volume, handle))
		}
		s.groups[handle] = made
	}
	return &csispec.CreateVolumeGroupSnapshotResponse{GroupSnapshot: s.lookGroup(handle)}, nil
}

// lookGroup counts a request for a group, which makes it ready in the end.
func (s *storage) lookGroup(handle string) *csispec.VolumeGroupSnapshot {
	s.requests[handle]++
	found := s.groups[handle]
	found.ReadyToUse = s.requests[handle] > s.readyAfter
	return found
}

func (s *storage) GetVolumeGroupSnapshot(
	_ context.Context, request *csispec.GetVolumeGroupSnapshotRequest,
) (*csispec.GetVolumeGroupSnapshotResponse, error) {
	if s.groups[request.GetGroupSnapshotId()] == nil {
		return nil, status.Error(codes.NotFound, "no such group")
	}
	return &csispec.GetVolumeGroupSnapshotResponse{GroupSnapshot: s.lookGroup(request.GetGroupSnapshotId())}, nil
}

func (s *storage) DeleteVolumeGroupSnapshot(
	_ context.Context, request *csispec.DeleteVolumeGroupSnapshotRequest,
) (*csispec.DeleteVolumeGroupSnapshotResponse, error) {
	for _, member := range s.groups[request.GetGroupSnapshotId()].GetSnapshots() {
		if !slices.Contains(request.GetSnapshotIds(), member.GetSnapshotId()) {
			return nil, status.Errorf(codes.InvalidArgument, "member %s is missing", member.GetSnapshotId())
		}
	}
	for _, member := range s.groups[request.GetGroupSnapshotId()].GetSnapshots() {
		delete(s.snapshots, member.GetSnapshotId())
	}
	delete(s.groups, request.GetGroupSnapshotId())
	return &csispec.DeleteVolumeGroupSnapshotResponse{}, nil
}
