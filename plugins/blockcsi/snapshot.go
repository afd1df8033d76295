package blockcsi

import (
	"context"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/volsim/volsim/plugins/internal/csireq"
)

// CreateSnapshot holds what the volume has at one instant: its file system is
// frozen meanwhile where that takes longer.
func (c *controller) CreateSnapshot(ctx context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	d := c.driver
	if !d.caps.CanCopy {
		return nil, status.Error(codes.Unimplemented, "snapshots are not offered")
	}
	if err := csireq.CheckCreateSnapshot(request); err != nil {
		return nil, err
	}
	if err := d.checkNoParameters(request.GetParameters()); err != nil {
		return nil, err
	}
	wish := VolumeSpec{ID: csireq.SnapshotID(request.GetName()), Name: request.GetName()}
	source := request.GetSourceVolumeId()
	unlock, err := d.locks.lock(ctx, wish.ID, source)
	if err != nil {
		return nil, err
	}
	defer unlock()
	made, err := d.existingSnapshot(ctx, wish.ID, source)
	if err != nil {
		return nil, err
	}
	if made == nil {
		if made, err = d.snapshot(ctx, wish, source); err != nil {
			return nil, err
		}
	}
	return &csi.CreateSnapshotResponse{Snapshot: csiSnapshot(*made)}, nil
}

// existingSnapshot returns a snapshot that is there already; nil if it is to be
// made. One that was left unfinished is removed.
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
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %q exists and is of %s, not of %s", snapshot.Name, snapshot.Source, source)
	}
	return &snapshot, nil
}

// checkNoParameters returns InvalidArgument for parameters of a class of
// snapshots, which no pool has.
func (d *Driver) checkNoParameters(parameters map[string]string) error {
	if d.cfg.AnyParameters {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(ownParameters(parameters))) {
		return status.Errorf(codes.InvalidArgument, "parameters: %q is not one of this driver's, snapshots have none", key)
	}
	return nil
}

// snapshot makes a snapshot of one volume.
func (d *Driver) snapshot(ctx context.Context, wish VolumeSpec, source string) (*Volume, error) {
	from, pool, err := d.find(ctx, source)
	if err != nil {
		return nil, err
	}
	made, err := d.copy(ctx, pool, from, wish)
	return &made, err
}

// copy makes a volume or a snapshot from another one, at one instant of it.
func (d *Driver) copy(ctx context.Context, pool Pool, from Volume, wish VolumeSpec) (made Volume, err error) {
	thaw, err := d.freeze(ctx, pooledVolume{Volume: from, pool: pool})
	if err != nil {
		return Volume{}, err
	}
	defer func() { err = thaw(err) }()
	return d.copyFrozen(ctx, pool, from, wish)
}

// copyFrozen is copy of a volume that is kept still.
func (d *Driver) copyFrozen(ctx context.Context, pool Pool, from Volume, wish VolumeSpec) (Volume, error) {
	wish.From, wish.SizeBytes = &from, max(wish.SizeBytes, from.SizeBytes)
	made, err := pool.Create(ctx, wish)
	if err == nil {
		d.remember(wish.ID, pool)
	}
	return made, csireq.PathStatus(err)
}

// csiSnapshot is a snapshot in CSI's words.
func csiSnapshot(snapshot Volume) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: snapshot.ID, SourceVolumeId: snapshot.Source, SizeBytes: snapshot.SizeBytes,
		CreationTime: timestamppb.New(snapshot.Created), ReadyToUse: true, GroupSnapshotId: snapshot.Group,
	}
}

func (c *controller) DeleteSnapshot(ctx context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	d, id := c.driver, request.GetSnapshotId()
	if err := csireq.CheckDeleteSnapshot(request); err != nil {
		return nil, err
	}
	if !csireq.IsSnapshotID(id) {
		return &csi.DeleteSnapshotResponse{}, nil // none of ours
	}
	return &csi.DeleteSnapshotResponse{}, d.remove(ctx, id)
}

// GetSnapshot returns one snapshot.
func (c *controller) GetSnapshot(ctx context.Context, request *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	if request.GetSnapshotId() == "" {
		return nil, status.Error(codes.InvalidArgument, "snapshot_id is missing")
	}
	snapshot, _, err := c.driver.find(ctx, request.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: csiSnapshot(snapshot)}, nil
}

// ListSnapshots returns all snapshots, or those of one id or of one volume: none is no error.
func (c *controller) ListSnapshots(ctx context.Context, request *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
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
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: csiSnapshot(each.Volume)})
	}
	return response, nil
}
