package loop

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/blockcsi"
)

// Capacity implements blockcsi.Pool: what is free below Dir beside the reserve. A
// larger volume can be made if it is sparse, but not filled.
func (p *pool) Capacity(context.Context, map[string]string) (blockcsi.Capacity, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free, err := p.free()
	free = max(free, 0)
	return blockcsi.Capacity{FreeBytes: free, MaxVolumeBytes: min(free, bytesMax), MinVolumeBytes: bytesMin, Location: p.dir}, p.status(err)
}

// free is what may still be taken from Dir, less than 0 where the reserve has
// been used. Call it with mu held.
func (p *pool) free() (int64, error) {
	free, err := freeBytes(p.dir)
	return free - p.reserve - p.reserved, err
}

// reserveSpace keeps bytes of Dir for a call until it gives them up; it is
// ResourceExhausted where there are not as many, or none at all.
func (p *pool) reserveSpace(bytes int64) (giveUp func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free, err := p.free()
	if err != nil {
		return nil, p.status(err)
	}
	if free < max(bytes, 1) {
		return nil, p.noSpaceError(bytes, max(free, 0))
	}
	p.reserved += bytes
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reserved -= bytes
	}, nil
}

// noSpaceError is the error of a Dir that has no room for bytes more.
func (p *pool) noSpaceError(bytes, free int64) error {
	text := fmt.Sprintf("no room in %s", p.dir)
	if bytes > 0 {
		text = fmt.Sprintf("no room for %d bytes in %s, which has %d", bytes, p.dir, free)
	}
	if p.reserve > 0 {
		text += fmt.Sprintf(" beside the reserve of %d", p.reserve)
	}
	return status.Errorf(codes.ResourceExhausted, "%s: free some there or give the driver another Dir", text)
}
