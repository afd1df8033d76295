package blockcsi

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/volsim/volsim/internal/csireq"
)

// groupController implements CSI's group controller service.
//
// A group consists only of its snapshots: each holds the group's ID and the number of members. A
// group with fewer snapshots is incomplete. It is hidden, and Recover removes its snapshots.
type groupController struct {
	csi.UnimplementedGroupControllerServer
	driver *Driver
}

func (g *groupController) GroupControllerGetCapabilities(
	context.Context, *csi.GroupControllerGetCapabilitiesRequest,
) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	if !g.driver.caps.groups() {
		return csireq.GroupCapabilities(), nil
	}
	return csireq.GroupCapabilities(
		csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
	), nil
}

// CreateVolumeGroupSnapshot freezes all mounted volumes, copies each and thaws them, so the
// snapshots are of one instant. It creates all of them or none.
func (g *groupController) CreateVolumeGroupSnapshot(
	ctx context.Context, request *csi.CreateVolumeGroupSnapshotRequest,
) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	d := g.driver
	sources, err := d.checkCreateGroup(request)
	if err != nil {
		return nil, err
	}
	id := csireq.GroupID(request.GetName())
	locked := []string{id}
	for _, source := range sources {
		locked = append(locked, source, csireq.MemberID(request.GetName(), source))
	}
	unlock, err := d.locks.lock(ctx, locked...)
	if err != nil {
		return nil, err
	}
	defer unlock()
	members, err := d.existingGroup(ctx, id, sources)
	if err == nil && len(members) == 0 {
		members, err = d.createGroup(ctx, request.GetName(), sources)
	}
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: csiGroup(id, members)}, nil
}

// checkCreateGroup checks a request and returns the sorted IDs of its volumes.
func (d *Driver) checkCreateGroup(request *csi.CreateVolumeGroupSnapshotRequest) ([]string, error) {
	if !d.caps.groups() {
		return nil, status.Error(codes.Unimplemented, "group snapshots are not supported")
	}
	sources, err := csireq.CheckCreateGroup(request)
	if err != nil {
		return nil, err
	}
	return sources, d.checkNoParameters(request.GetParameters())
}

// existingGroup returns the snapshots of an existing group, or none. It removes those of an
// incomplete group.
func (d *Driver) existingGroup(ctx context.Context, id string, sources []string) ([]pooledVolume, error) {
	members, missing, err := d.members(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case missing > 0:
		return nil, d.removeMembers(ctx, members)
	case len(members) == 0:
		return nil, nil
	}
	var made []string
	for _, each := range members {
		made = append(made, each.Source)
	}
	slices.Sort(made)
	return members, csireq.CheckSources(id, made, sources)
}

// createGroup creates the snapshots of a group, or none of them.
func (d *Driver) createGroup(ctx context.Context, name string, sources []string) ([]pooledVolume, error) {
	var from []pooledVolume
	for _, source := range sources {
		volume, pool, err := d.find(ctx, source)
		if err != nil {
			return nil, err
		}
		from = append(from, pooledVolume{Volume: volume, pool: pool})
	}
	made, err := d.snapshotAll(ctx, name, from)
	if err != nil {
		if undoing := d.removeMembers(context.WithoutCancel(ctx), made); undoing != nil {
			err = status.Errorf(status.Code(err), "%s; snapshots remain until the driver restarts: %v",
				status.Convert(err).Message(), undoing)
		}
		return nil, err
	}
	return made, nil
}

// snapshotAll creates a snapshot of each volume while all are frozen. On an error it also returns
// those that it has created.
func (d *Driver) snapshotAll(ctx context.Context, name string, from []pooledVolume) (made []pooledVolume, err error) {
	thaw, err := d.freeze(ctx, from...)
	if err != nil {
		return nil, err
	}
	defer func() { err = thaw(err) }()
	for _, source := range from {
		spec := VolumeSpec{ID: csireq.MemberID(name, source.ID), Name: name, Group: csireq.GroupID(name), GroupSize: len(from)}
		snapshot, err := d.copyFrozen(ctx, source.pool, source.Volume, spec)
		if err != nil {
			return made, err
		}
		made = append(made, pooledVolume{Volume: snapshot, pool: source.pool})
	}
	return made, nil
}

// csiGroup converts a group to CSI's type.
func csiGroup(id string, members []pooledVolume) *csi.VolumeGroupSnapshot {
	group := &csi.VolumeGroupSnapshot{GroupSnapshotId: id, ReadyToUse: true}
	first := members[0].Created
	for _, each := range members {
		group.Snapshots = append(group.Snapshots, csiSnapshot(each.Volume))
		if each.Created.Before(first) {
			first = each.Created
		}
	}
	group.CreationTime = timestamppb.New(first)
	return group
}

// DeleteVolumeGroupSnapshot removes a group and all its snapshots.
func (g *groupController) DeleteVolumeGroupSnapshot(
	ctx context.Context, request *csi.DeleteVolumeGroupSnapshotRequest,
) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	d, id := g.driver, request.GetGroupSnapshotId()
	if err := csireq.RequireGroupID(request); err != nil {
		return nil, err
	}
	if !csireq.IsGroupID(id) {
		return &csi.DeleteVolumeGroupSnapshotResponse{}, nil // not one of ours
	}
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	members, missing, err := d.members(ctx, id)
	if err == nil && missing == 0 && len(members) > 0 {
		err = checkMembers(id, members, request.GetSnapshotIds())
	}
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, each := range members {
		ids = append(ids, each.ID)
	}
	unlockAll, err := d.locks.lock(ctx, ids...) // "group-" sorts before "snap-", so the order is kept
	if err != nil {
		return nil, err
	}
	defer unlockAll()
	return &csi.DeleteVolumeGroupSnapshotResponse{}, d.removeMembers(ctx, members)
}

// GetVolumeGroupSnapshot returns one complete group.
func (g *groupController) GetVolumeGroupSnapshot(
	ctx context.Context, request *csi.GetVolumeGroupSnapshotRequest,
) (*csi.GetVolumeGroupSnapshotResponse, error) {
	id := request.GetGroupSnapshotId()
	if err := csireq.RequireGroupID(request); err != nil {
		return nil, err
	}
	members, missing, err := g.driver.members(ctx, id)
	if err != nil {
		return nil, err
	}
	if missing > 0 || len(members) == 0 {
		return nil, status.Errorf(codes.NotFound, "no group %q", id)
	}
	if err := checkMembers(id, members, request.GetSnapshotIds()); err != nil {
		return nil, err
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: csiGroup(id, members)}, nil
}

// checkMembers returns InvalidArgument if a request names snapshots other than the group's. An
// empty list is accepted.
func checkMembers(id string, members []pooledVolume, named []string) error {
	var has []string // sorted, like members
	for _, each := range members {
		has = append(has, each.ID)
	}
	return csireq.CheckMembers(id, has, named)
}

// members returns all snapshots of a group, sorted by ID, and the number of missing or unfinished
// ones.
func (d *Driver) members(ctx context.Context, group string) ([]pooledVolume, int, error) {
	all, err := d.listAll(ctx)
	members := slices.DeleteFunc(all, func(each pooledVolume) bool { return group == "" || each.Group != group })
	return members, missingMembers(members)[group], err
}

// missingMembers returns the number of missing or unfinished snapshots of each group.
func missingMembers(all []pooledVolume) map[string]int {
	missing := map[string]int{}
	for _, each := range all {
		if each.Group == "" {
			continue
		}
		if _, counted := missing[each.Group]; !counted {
			missing[each.Group] = each.GroupSize
		}
		if !each.Unfinished {
			missing[each.Group]--
		}
	}
	return missing
}

// checkComplete returns NotFound for a snapshot of an incomplete group.
func (d *Driver) checkComplete(ctx context.Context, snapshot Volume) error {
	_, missing, err := d.members(ctx, snapshot.Group)
	if err == nil && missing > 0 {
		err = notFound(snapshot.ID)
	}
	return err
}

// removeMembers removes snapshots that the caller has locked.
func (d *Driver) removeMembers(ctx context.Context, members []pooledVolume) error {
	for _, each := range members {
		if err := d.removeLocked(ctx, each.ID, true); err != nil {
			return err
		}
	}
	return nil
}

// incompleteMembers returns the snapshots of incomplete groups.
func (d *Driver) incompleteMembers(ctx context.Context) ([]pooledVolume, error) {
	all, err := d.listAll(ctx)
	missing := missingMembers(all)
	return slices.DeleteFunc(all, func(each pooledVolume) bool { return missing[each.Group] <= 0 }), err
}

// recoverGroups removes the snapshots of incomplete groups. It returns one line for each.
func (d *Driver) recoverGroups(ctx context.Context) (done []string, err error) {
	rest, err := d.incompleteMembers(ctx)
	for _, each := range rest {
		if err == nil {
			err = d.removeLocked(ctx, each.ID, true)
			done = append(done, "removed "+each.ID+" of group "+each.Group+
				", whose creation or removal was interrupted")
		}
	}
	return done, err
}
