package lvm

import (
	"context"
	"errors"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/lvm2"
)

// pool implements blockcsi.Pool on the volume group of a node.
type pool struct {
	node        string
	system      *lvm2.System
	group       *lvm2.VolumeGroup
	caps        lvm2.Capabilities
	thin        Thin
	attachments blockcsi.AttachmentRecords

	extentBytes int64
	reservedMu  sync.Mutex        // guards reserved
	reserved    map[string]int64  // sizes of thin volumes that are being created or extended, by ID
	onStep      func(what string) // for tests: called where the process may be killed; may be nil
}

// step marks a point where the process may be killed.
func (p *pool) step(what string) {
	if p.onStep != nil {
		p.onStep(what)
	}
}

var _ blockcsi.Pool = (*pool)(nil)

// Node implements blockcsi.Pool.
func (p *pool) Node() string { return p.node }

// RegisterNode implements blockcsi.Pool. The only node is already known.
func (p *pool) RegisterNode(string) {}

// Capabilities implements blockcsi.Pool.
func (p *pool) Capabilities() blockcsi.Capabilities {
	return blockcsi.Capabilities{
		FSTypes: blockcsi.FSTypes(), CanCopy: true, AtomicCopies: p.caps.Snapshots, CopyFreezes: p.caps.Snapshots,
		PersistentAttach: true, Settings: p.settings(),
	}
}

// Volume implements blockcsi.Pool.
func (p *pool) Volume(ctx context.Context, id string) (blockcsi.Volume, error) {
	report, err := p.group.Report(ctx)
	if err != nil {
		return blockcsi.Volume{}, p.status(err)
	}
	lv, found := report.Find(id)
	if !found && report.IsMoving(id) {
		return blockcsi.Volume{}, status.Errorf(codes.Aborted, "volume %s is being moved to free space: try again", id)
	}
	if !found || !isOwn(lv) {
		return blockcsi.Volume{}, p.notFound(id)
	}
	return volumeOf(report, lv), nil
}

// isOwn reports whether a logical volume is a volume or a snapshot of the driver.
func isOwn(lv lvm2.LogicalVolume) bool {
	return (csireq.IsVolumeID(lv.Name) || csireq.IsSnapshotID(lv.Name)) && lv.HasTags(tagOwned) && !lv.Unfinished()
}

// find returns the logical volume of an ID, if it is the driver's.
func (p *pool) find(ctx context.Context, id string) (lvm2.LogicalVolume, error) {
	if !csireq.IsVolumeID(id) && !csireq.IsSnapshotID(id) {
		return lvm2.LogicalVolume{}, p.notFound(id)
	}
	lv, err := p.group.Find(ctx, id)
	if errors.Is(err, lvm2.ErrNotFound) || (err == nil && !isOwn(lv)) {
		return lvm2.LogicalVolume{}, p.notFound(id)
	}
	return lv, p.status(err)
}

func (p *pool) notFound(id string) error {
	return status.Errorf(codes.NotFound, "no volume %q in volume group %s of node %s", id, p.group.Name(), p.node)
}

// Volumes implements blockcsi.Pool.
func (p *pool) Volumes(ctx context.Context) ([]blockcsi.Volume, error) {
	report, err := p.group.Report(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	volumes := make([]blockcsi.Volume, 0, len(report.LogicalVolumes))
	for _, lv := range report.LogicalVolumes {
		if isOwn(lv) {
			volumes = append(volumes, volumeOf(report, lv))
		}
	}
	return volumes, nil
}

// Delete implements blockcsi.Pool. Copies of a volume remain, except thick snapshots. These hold
// only differences and must be deleted first.
func (p *pool) Delete(ctx context.Context, volume blockcsi.Volume) error {
	report, err := p.group.Report(ctx)
	if err != nil {
		return p.status(err)
	}
	var depend []string
	for _, lv := range report.LogicalVolumes {
		if lv.Layout == lvm2.Snapshot && lv.Origin == volume.ID {
			depend = append(depend, lv.Name)
		}
	}
	if len(depend) > 0 {
		return status.Errorf(codes.FailedPrecondition,
			"volume %s has snapshots that hold only differences from it: delete %s first", volume.ID,
			strings.Join(depend, ", "))
	}
	return p.status(p.group.Remove(ctx, volume.ID))
}

// Extend implements blockcsi.Pool.
func (p *pool) Extend(ctx context.Context, volume blockcsi.Volume, sizeBytes int64) error {
	if volume.Parameters[layoutKey] == string(lvm2.Thin) && sizeBytes > volume.SizeBytes {
		release, err := p.reserveThin(ctx, volume.ID, sizeBytes)
		if err != nil {
			return p.status(err)
		}
		defer release()
	}
	_, err := p.group.Extend(ctx, volume.ID, sizeBytes)
	return p.status(err)
}

// status converts an error of LVM to a status with advice.
func (p *pool) status(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lvm2.ErrNoSpace):
		return status.Errorf(codes.ResourceExhausted,
			"volume group %s of node %s: %v: delete volumes or give it another disk", p.group.Name(), p.node, err)
	case errors.Is(err, lvm2.ErrNotContiguous):
		return status.Errorf(codes.ResourceExhausted,
			"volume group %s of node %s: %v: without device-mapper a volume must be contiguous: "+
				"try a smaller one, or this one while it is not in use", p.group.Name(), p.node, err)
	case errors.Is(err, lvm2.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, lvm2.ErrExists):
		return status.Error(codes.AlreadyExists, err.Error())
	case errors.Is(err, lvm2.ErrInUse), errors.Is(err, blockdev.ErrFrozen):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, lvm2.ErrInvalidArgument):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, lvm2.ErrUnsupported):
		return status.Errorf(codes.FailedPrecondition, "%v: start the driver on a machine with device-mapper", err)
	case errors.Is(err, lvm2.ErrForeign):
		return status.Errorf(codes.FailedPrecondition,
			"volume group %s of node %s: %v: give the driver a volume group of its own", p.group.Name(), p.node, err)
	case errors.Is(err, lvm2.ErrDuplicateDevice):
		return status.Errorf(codes.Unavailable, "volume group %s of node %s: %v: remove one of the two", p.group.Name(),
			p.node, err)
	case errors.Is(err, lvm2.ErrNoGroup), errors.Is(err, lvm2.ErrMissingDevice):
		return status.Errorf(codes.Unavailable, "volume group %s of node %s: %v: bring its disks back", p.group.Name(),
			p.node, err)
	}
	return csireq.PathStatus(err)
}
