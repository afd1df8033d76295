package blockcsi

import (
	"context"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/volsim/volsim/internal/csireq"
)

// CreateSnapshot creates a snapshot of one instant. It freezes the file system meanwhile if the
// pool cannot do so at once.
func (c *controller) CreateSnapshot(
	ctx context.Context, request *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	d := c.driver
	if !d.caps.CanCopy {
		return nil, status.Error(codes.Unimplemented, "snapshots are not supported")
	}
	if err := csireq.CheckCreateSnapshot(request); err != nil {
		return nil, err
	}
	if err := d.checkNoParameters(request.GetParameters()); err != nil {
		return nil, err
	}
	spec := VolumeSpec{ID: csireq.SnapshotID(request.GetName()), Name: request.GetName()}
	source := request.GetSourceVolumeId()
	unlock, err := d.locks.lock(ctx, spec.ID, source)
	if err != nil {
		return nil, err
	}
	defer unlock()
	made, err := d.existingSnapshot(ctx, spec.ID, source)
	if err != nil {
		return nil, err
	}
	if made == nil {
		if made, err = d.snapshot(ctx, spec, source); err != nil {
			return nil, err
		}
	}
	return &csi.CreateSnapshotResponse{Snapshot: csiSnapshot(*made)}, nil
}

// existingSnapshot returns an existing snapshot, or nil. It removes an unfinished one.
func (d *Driver) existingSnapshot(ctx context.Context, id, source string) (*Volume, error) {
	snapshot, pool, err := d.lookup(ctx, id)
	switch {
	case status.Code(err) == codes.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case snapshot.Unfinished:
		return nil, csireq.PathStatus(pool.Delete(ctx, snapshot))
	case snapshot.Source != source:
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %q exists with source %s, requested is %s",
			snapshot.Name, snapshot.Source, source)
	}
	return &snapshot, nil
}

// checkNoParameters returns InvalidArgument for parameters of a snapshot class. No pool has any.
func (d *Driver) checkNoParameters(parameters map[string]string) error {
	if d.cfg.AnyParameters {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(ownParameters(parameters))) {
		return status.Errorf(codes.InvalidArgument, "parameters: unknown parameter %q: snapshots have none", key)
	}
	return nil
}

// snapshot creates a snapshot of one volume.
func (d *Driver) snapshot(ctx context.Context, spec VolumeSpec, source string) (*Volume, error) {
	from, pool, err := d.find(ctx, source)
	if err != nil {
		return nil, err
	}
	made, err := d.copy(ctx, pool, from, spec)
	return &made, err
}

// copy creates a volume or a snapshot from another one at one instant.
func (d *Driver) copy(ctx context.Context, pool Pool, from Volume, spec VolumeSpec) (made Volume, err error) {
	thaw, err := d.freeze(ctx, pooledVolume{Volume: from, pool: pool})
	if err != nil {
		return Volume{}, err
	}
	defer func() { err = thaw(err) }()
	return d.copyFrozen(ctx, pool, from, spec)
}

// copyFrozen works like copy for a frozen volume.
func (d *Driver) copyFrozen(ctx context.Context, pool Pool, from Volume, spec VolumeSpec) (Volume, error) {
	spec.From, spec.SizeBytes = &from, max(spec.SizeBytes, from.SizeBytes)
	made, err := pool.Create(ctx, spec)
	if err == nil {
		d.remember(spec.ID, pool)
	}
	return made, csireq.PathStatus(err)
}

// csiSnapshot converts a snapshot to CSI's type.
func csiSnapshot(snapshot Volume) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: snapshot.ID, SourceVolumeId: snapshot.Source, SizeBytes: snapshot.SizeBytes,
		CreationTime: timestamppb.New(snapshot.Created), ReadyToUse: true, GroupSnapshotId: snapshot.Group,
	}
}

func (c *controller) DeleteSnapshot(
	ctx context.Context, request *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	d, id := c.driver, request.GetSnapshotId()
	if err := csireq.RequireSnapshotID(request); err != nil {
		return nil, err
	}
	if !csireq.IsSnapshotID(id) {
		return &csi.DeleteSnapshotResponse{}, nil // not one of ours
	}
	return &csi.DeleteSnapshotResponse{}, d.remove(ctx, id)
}

// GetSnapshot returns one snapshot.
func (c *controller) GetSnapshot(
	ctx context.Context, request *csi.GetSnapshotRequest,
) (*csi.GetSnapshotResponse, error) {
	if err := csireq.RequireSnapshotID(request); err != nil {
		return nil, err
	}
	snapshot, _, err := c.driver.find(ctx, request.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: csiSnapshot(snapshot)}, nil
}

// ListSnapshots returns all snapshots, or those with an ID or of a volume. It is not an error if
// there are none.
func (c *controller) ListSnapshots(
	ctx context.Context, request *csi.ListSnapshotsRequest,
) (*csi.ListSnapshotsResponse, error) {
	if err := csireq.CheckText(request); err != nil {
		return nil, err
	}
	all, err := c.driver.listComplete(ctx, true)
	if err != nil {
		return nil, err
	}
	var wanted []pooledVolume
	for _, each := range all {
		id, source := request.GetSnapshotId(), request.GetSourceVolumeId()
		if (id == "" || id == each.ID) && (source == "" || source == each.Source) {
			wanted = append(wanted, each)
		}
	}
	part, next, err := page(wanted, request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	response := &csi.ListSnapshotsResponse{NextToken: next}
	for _, each := range part {
		response.Entries = append(response.Entries,
			&csi.ListSnapshotsResponse_Entry{Snapshot: csiSnapshot(each.Volume)})
	}
	return response, nil
}
