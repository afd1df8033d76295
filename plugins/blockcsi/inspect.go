package blockcsi

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/internal/csireq"
)

// VolumeState is a volume as it is found, whole or not.
type VolumeState struct {
	Volume
	// Pool is where it lies.
	Pool Pool
	// Attachment is how it is attached; nil is not, or not to be found out: then
	// AttachedErr is why.
	Attachment    *Attachment
	AttachmentErr error
}

// Inspect returns a volume as it is; NotFound if there is none, nor a device of one.
func (d *Driver) Inspect(ctx context.Context, id string) (VolumeState, error) {
	volume, pool, err := d.lookup(ctx, id)
	if err != nil {
		return VolumeState{}, err
	}
	seen := inspect(ctx, volume, pool)
	if seen.isGone() {
		return VolumeState{}, notFound(id)
	}
	return seen, nil
}

// InspectAll returns all volumes as they are, no snapshots, sorted by ID.
func (d *Driver) InspectAll(ctx context.Context) ([]VolumeState, error) {
	var all []VolumeState
	for _, pool := range d.cfg.Pools {
		volumes, err := pool.Volumes(ctx)
		if err != nil {
			return nil, csireq.PathStatus(err)
		}
		for _, volume := range volumes {
			if seen := inspect(ctx, volume, pool); !volume.IsSnapshot() && !seen.isGone() {
				all = append(all, seen)
			}
		}
	}
	slices.SortFunc(all, func(a, b VolumeState) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Pools are where the driver's volumes lie.
func (d *Driver) Pools() []Pool { return d.cfg.Pools }

func inspect(ctx context.Context, volume Volume, pool Pool) VolumeState {
	seen := VolumeState{Volume: volume, Pool: pool}
	seen.Attachment, seen.AttachmentErr = pool.Attachment(ctx, volume)
	return seen
}

// isGone tells whether it is a volume that is being made or removed, of which
// nobody has a device.
func (s VolumeState) isGone() bool {
	return s.Unfinished && s.Attachment == nil && (s.AttachmentErr == nil || status.Code(s.AttachmentErr) == codes.NotFound)
}
