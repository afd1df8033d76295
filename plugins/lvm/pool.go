package lvm

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/nodefs/lvm2"
	"github.com/volsim/volsim/plugins/blockcsi"
	"github.com/volsim/volsim/plugins/csireq"
)

// pool is the volume group of a node.
type pool struct {
	node   string
	system *lvm2.System
	group  *lvm2.VolumeGroup
	caps   lvm2.Caps
	thin   Thin

	extentBytes int64
	onStep      func(what string) // for tests: where the process may be killed; nil is nothing
}

// step is where the process may be killed.
func (p *pool) step(what string) {
	if p.onStep != nil {
		p.onStep(what)
	}
}

var _ blockcsi.Pool = (*pool)(nil)

// Node implements blockcsi.Pool.
func (p *pool) Node() string { return p.node }

// Serve implements blockcsi.Pool: the only node is known.
func (p *pool) Serve(string) {}

// Abilities implements blockcsi.Pool.
func (p *pool) Abilities() blockcsi.Abilities {
	return blockcsi.Abilities{FSTypes: blockcsi.FSTypes(), Copies: true, InstantCopies: p.caps.Snapshots, Lasting: true}
}

// Volume implements blockcsi.Pool.
func (p *pool) Volume(ctx context.Context, id string) (blockcsi.Volume, error) {
	lv, err := p.find(ctx, id)
	if err != nil {
		return blockcsi.Volume{}, err
	}
	return volumeOf(lv), nil
}

// find returns the logical volume of an ID, if it is ours.
func (p *pool) find(ctx context.Context, id string) (lvm2.LogicalVolume, error) {
	if !csireq.IsVolumeID(id) && !csireq.IsSnapshotID(id) {
		return lvm2.LogicalVolume{}, p.none(id)
	}
	lv, err := p.group.Find(ctx, id)
	if errors.Is(err, lvm2.ErrNotFound) || (err == nil && !lv.HasTags(tagOwned)) {
		return lvm2.LogicalVolume{}, p.none(id)
	}
	return lv, p.status(err)
}

func (p *pool) none(id string) error {
	return status.Errorf(codes.NotFound, "no volume %q in volume group %s of node %s", id, p.group.Name(), p.node)
}

// Volumes implements blockcsi.Pool.
func (p *pool) Volumes(ctx context.Context) ([]blockcsi.Volume, error) {
	all, err := p.group.List(ctx, tagOwned)
	if err != nil {
		return nil, p.status(err)
	}
	volumes := make([]blockcsi.Volume, 0, len(all))
	for _, lv := range all {
		volumes = append(volumes, volumeOf(lv))
	}
	return volumes, nil
}

// Delete implements blockcsi.Pool.
func (p *pool) Delete(ctx context.Context, volume blockcsi.Volume) error {
	return p.status(p.group.Remove(ctx, volume.ID))
}

// Extend implements blockcsi.Pool.
func (p *pool) Extend(ctx context.Context, volume blockcsi.Volume, sizeBytes int64) error {
	_, err := p.group.Extend(ctx, volume.ID, sizeBytes)
	return p.status(err)
}

// Recover implements blockcsi.Pool: what had been begun is finished or undone as
// the volume group is opened.
func (p *pool) Recover(context.Context) ([]string, error) { return nil, nil }

// Orphans implements blockcsi.Pool: logical volumes in the driver's own volume
// group that are none of its volumes.
func (p *pool) Orphans(ctx context.Context) ([]string, error) {
	all, err := p.group.List(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	var orphans []string
	for _, lv := range all {
		if !lv.HasTags(tagOwned) && lv.Layout != lvm2.ThinPool {
			orphans = append(orphans, "logical volume "+p.group.Name()+"/"+lv.Name+" on node "+p.node+" is none of the driver's: lvremove frees it")
		}
	}
	return orphans, nil
}

// destroy removes all that is in the volume group, and the group.
func (p *pool) destroy(ctx context.Context) error {
	all, err := p.group.List(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, lv := range all {
		names = append(names, lv.Name)
	}
	if len(names) > 0 {
		err = p.group.Remove(ctx, names...)
	}
	if err == nil {
		err = p.group.RemoveGroup(ctx)
	}
	if err == nil {
		err = p.system.Detach(ctx)
	}
	return err
}

// status turns an error of LVM into a status that says what to do.
func (p *pool) status(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lvm2.ErrNoSpace):
		return status.Errorf(codes.ResourceExhausted, "volume group %s of node %s: %v: delete volumes or give it another disk", p.group.Name(), p.node, err)
	case errors.Is(err, lvm2.ErrNotContiguous):
		return status.Errorf(codes.ResourceExhausted,
			"volume group %s of node %s: %v: without device-mapper a volume lies in one piece, so a smaller one may fit, or this one once it is not in use", p.group.Name(), p.node, err)
	case errors.Is(err, lvm2.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, lvm2.ErrExists):
		return status.Error(codes.AlreadyExists, err.Error())
	case errors.Is(err, lvm2.ErrInUse):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, lvm2.ErrBadName), errors.Is(err, lvm2.ErrUnsupported):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, lvm2.ErrNoGroup), errors.Is(err, lvm2.ErrMissingDevice), errors.Is(err, lvm2.ErrDuplicateDevice):
		return status.Errorf(codes.Unavailable, "volume group %s of node %s: %v", p.group.Name(), p.node, err)
	}
	return csireq.PathStatus(err)
}
