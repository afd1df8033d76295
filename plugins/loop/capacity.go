package loop

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
)

// Capacity implements blockcsi.Pool. It returns the free space in Dir without the reserve. A larger
// sparse volume can be created, but not filled.
func (p *pool) Capacity(context.Context, map[string]string) (blockcsi.Capacity, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free, err := p.free()
	free = max(free, 0)
	return blockcsi.Capacity{
		FreeBytes: free, MaxVolumeBytes: min(free, bytesMax), MinVolumeBytes: bytesMin, Location: p.dir,
	}, p.status(err)
}

// free returns the bytes of Dir that may be allocated. It is negative if the reserve is in use. The
// caller holds mu.
func (p *pool) free() (int64, error) {
	free, err := freeBytes(p.dir)
	return free - p.reserve - p.reserved, err
}

// reserveSpace reserves bytes of Dir for a call until release is called. It returns
// ResourceExhausted if there is less free space, or none at all.
func (p *pool) reserveSpace(bytes int64) (release func(), err error) {
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

// noSpaceError returns the error for a Dir without room for bytes more.
func (p *pool) noSpaceError(bytes, free int64) error {
	text := fmt.Sprintf("no space left in %s", p.dir)
	if bytes > 0 {
		text = fmt.Sprintf("no space for %d bytes in %s, which has %d", bytes, p.dir, free)
	}
	if p.reserve > 0 {
		text += fmt.Sprintf(" besides the reserve of %d", p.reserve)
	}
	return status.Errorf(codes.ResourceExhausted, "%s: free some space there or give the driver another Dir", text)
}
