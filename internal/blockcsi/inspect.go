package blockcsi

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
)

// VolumeState is the state of a volume, complete or not.
type VolumeState struct {
	Volume
	// Pool is the volume's pool.
	Pool Pool
	// Attachment is the volume's attachment. It is nil if the volume is not attached, or if that is
	// unknown; AttachmentErr is then the reason.
	Attachment    *Attachment
	AttachmentErr error
}

// Inspect returns the state of a volume. It returns NotFound if there is neither the volume nor a
// device of it.
func (d *Driver) Inspect(ctx context.Context, id string) (VolumeState, error) {
	volume, pool, err := d.lookup(ctx, id)
	if err != nil {
		return VolumeState{}, err
	}
	state := inspect(ctx, volume, pool)
	if state.isGone() {
		return VolumeState{}, notFound(id)
	}
	return state, nil
}

// InspectAll returns the state of all volumes, without snapshots, sorted by ID.
func (d *Driver) InspectAll(ctx context.Context) ([]VolumeState, error) {
	var all []VolumeState
	for _, pool := range d.cfg.Pools {
		volumes, err := pool.Volumes(ctx)
		if err != nil {
			return nil, csireq.PathStatus(err)
		}
		for _, volume := range volumes {
			if state := inspect(ctx, volume, pool); !volume.IsSnapshot() && !state.isGone() {
				all = append(all, state)
			}
		}
	}
	slices.SortFunc(all, func(a, b VolumeState) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Pools returns the driver's pools.
func (d *Driver) Pools() []Pool { return d.cfg.Pools }

func inspect(ctx context.Context, volume Volume, pool Pool) VolumeState {
	state := VolumeState{Volume: volume, Pool: pool}
	state.Attachment, state.AttachmentErr = pool.Attachment(ctx, volume)
	return state
}

// isGone reports whether a volume is being created or removed and has no device.
func (s VolumeState) isGone() bool {
	return s.Unfinished && s.Attachment == nil && (s.AttachmentErr == nil ||
		status.Code(s.AttachmentErr) == codes.NotFound)
}
