package blockcsi

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/internal/csireq"
)

// Seen is a volume as it is found, whole or not.
type Seen struct {
	Volume
	// Pool is where it lies.
	Pool Pool
	// Attached is how it is attached; nil is not, or not to be found out: then
	// AttachedErr is why.
	Attached    *Attachment
	AttachedErr error
}

// See returns a volume as it is; NotFound if there is none, nor a device of one.
func (d *Driver) See(ctx context.Context, id string) (Seen, error) {
	volume, pool, err := d.seek(ctx, id)
	if err != nil {
		return Seen{}, err
	}
	seen := see(ctx, volume, pool)
	if seen.gone() {
		return Seen{}, notFound(id)
	}
	return seen, nil
}

// SeeAll returns all volumes as they are, no snapshots, sorted by ID.
func (d *Driver) SeeAll(ctx context.Context) ([]Seen, error) {
	var all []Seen
	for _, pool := range d.cfg.Pools {
		volumes, err := pool.Volumes(ctx)
		if err != nil {
			return nil, csireq.PathStatus(err)
		}
		for _, volume := range volumes {
			if seen := see(ctx, volume, pool); !volume.IsSnapshot() && !seen.gone() {
				all = append(all, seen)
			}
		}
	}
	slices.SortFunc(all, func(a, b Seen) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Pools are where the driver's volumes lie.
func (d *Driver) Pools() []Pool { return d.cfg.Pools }

func see(ctx context.Context, volume Volume, pool Pool) Seen {
	seen := Seen{Volume: volume, Pool: pool}
	seen.Attached, seen.AttachedErr = pool.Attachment(ctx, volume)
	return seen
}

// gone tells whether it is a volume that is being made or removed, of which
// nobody has a device.
func (s Seen) gone() bool {
	return s.Unfinished && s.Attached == nil && (s.AttachedErr == nil || status.Code(s.AttachedErr) == codes.NotFound)
}
