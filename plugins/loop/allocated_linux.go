package loop

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/blockcsi"
)

// statBlockBytes is the unit of the number of blocks in stat.
const statBlockBytes = 512

// BackedBytes returns the number of bytes of a volume that have blocks in Dir. The rest is a hole,
// which needs blocks when it is written. Blocks shared with a copy count, although a write to them
// needs new ones.
func (p *pool) BackedBytes(_ context.Context, volume blockcsi.Volume) (int64, error) {
	var info unix.Stat_t
	if err := unix.Stat(p.image(volume.ID), &info); err != nil {
		return 0, p.status(err)
	}
	return info.Blocks * statBlockBytes, nil
}
