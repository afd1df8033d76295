package array

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/volsim/volsim/internal/csireq"
)

// groupController is the group controller service. Its methods are CSI's. A group consists only of
// its snapshots, which are created and deleted together.
type groupController struct {
	csi.UnimplementedGroupControllerServer
	array *Array
}

// groupCapabilities is shared by all arrays; it is only read.
var groupCapabilities = csireq.GroupCapabilities(
	csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
)

func (g *groupController) GroupControllerGetCapabilities(
	context.Context, *csi.GroupControllerGetCapabilitiesRequest,
) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	return groupCapabilities, nil
}

// CreateVolumeGroupSnapshot copies all volumes at one instant, in use or not: crash-consistent. It
// creates all snapshots or none.
func (g *groupController) CreateVolumeGroupSnapshot(
	_ context.Context, request *csi.CreateVolumeGroupSnapshotRequest,
) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	sources, err := csireq.CheckCreateGroup(request)
	if err != nil {
		return nil, err
	}
	a, id := g.array, csireq.GroupID(request.GetName())
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.members(id); len(old) > 0 {
		if err := csireq.CheckSources(id, sourcesOf(old), sources); err != nil {
			return nil, err
		}
		return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: csiGroup(id, old)}, nil
	}
	volumes := make([]*volume, len(sources))
	for i, source := range sources {
		if volumes[i], err = a.find(source); err != nil {
			return nil, err
		}
	}
	a.snapshotAll(volumes, func(v *volume) snapshot {
		return snapshot{id: csireq.MemberID(request.GetName(), v.id), name: request.GetName(), group: id}
	})
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: csiGroup(id, a.members(id))}, nil
}

// DeleteVolumeGroupSnapshot removes a group and all its snapshots.
func (g *groupController) DeleteVolumeGroupSnapshot(
	_ context.Context, request *csi.DeleteVolumeGroupSnapshotRequest,
) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	if err := csireq.RequireGroupID(request); err != nil {
		return nil, err
	}
	a, id := g.array, request.GetGroupSnapshotId()
	a.mu.Lock()
	defer a.mu.Unlock()
	members := a.members(id)
	if len(members) > 0 {
		if err := csireq.CheckMembers(id, idsOf(members), request.GetSnapshotIds()); err != nil {
			return nil, err
		}
	}
	for _, s := range members {
		delete(a.snapshots, s.id)
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}

// GetVolumeGroupSnapshot returns one group.
func (g *groupController) GetVolumeGroupSnapshot(
	_ context.Context, request *csi.GetVolumeGroupSnapshotRequest,
) (*csi.GetVolumeGroupSnapshotResponse, error) {
	if err := csireq.RequireGroupID(request); err != nil {
		return nil, err
	}
	a, id := g.array, request.GetGroupSnapshotId()
	a.mu.Lock()
	defer a.mu.Unlock()
	members := a.members(id)
	if len(members) == 0 {
		return nil, status.Errorf(codes.NotFound, "no group %q on this array", id)
	}
	if err := csireq.CheckMembers(id, idsOf(members), request.GetSnapshotIds()); err != nil {
		return nil, err
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: csiGroup(id, members)}, nil
}

// members returns the snapshots of a group, sorted by ID. The caller holds a.mu.
func (a *Array) members(groupID string) []*snapshot {
	var all []*snapshot
	for _, id := range a.snapshotIDs() {
		if s := a.snapshots[id]; s.group == groupID {
			all = append(all, s)
		}
	}
	return all
}

// idsOf returns the IDs of snapshots.
func idsOf(snapshots []*snapshot) []string {
	var ids []string
	for _, s := range snapshots {
		ids = append(ids, s.id)
	}
	return ids
}

// sourcesOf returns the sorted IDs of the volumes of snapshots.
func sourcesOf(snapshots []*snapshot) []string {
	var ids []string
	for _, s := range snapshots {
		ids = append(ids, s.source)
	}
	slices.Sort(ids)
	return ids
}

// csiGroup returns a group as CSI describes it.
func csiGroup(id string, members []*snapshot) *csi.VolumeGroupSnapshot {
	group := &csi.VolumeGroupSnapshot{
		GroupSnapshotId: id, ReadyToUse: true, CreationTime: timestamppb.New(members[0].created),
	}
	for _, s := range members {
		group.Snapshots = append(group.Snapshots, s.csiSnapshot())
	}
	return group
}
