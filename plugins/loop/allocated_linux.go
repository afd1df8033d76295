package loop

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/plugins/blockcsi"
)

// statBlockBytes is the unit in which stat counts what a file takes up.
const statBlockBytes = 512

// BackedBytes returns how many bytes of a volume have blocks below Dir: the rest
// is a hole, and needs some when it is written. What is shared with a copy counts,
// too, though it needs others when it is written.
func (p *pool) BackedBytes(_ context.Context, volume blockcsi.Volume) (int64, error) {
	var info unix.Stat_t
	if err := unix.Stat(p.image(volume.ID), &info); err != nil {
		return 0, p.status(err)
	}
	return info.Blocks * statBlockBytes, nil
}
