package lvm

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/lvm2"
)

// thinFreeBytes is how many bytes thin volumes may still be promised: none if the pool
// is full. Whoever calls it holds promising.
func (p *pool) thinFreeBytes(report *lvm2.Report) int64 {
	if isFull(report) {
		return 0
	}
	ratio := max(p.thin.OvercommitRatio, 1)
	poolBytes := p.thinPoolBytes(report)
	var promised int64
	for _, lv := range report.LogicalVolumes {
		switch {
		case lv.Name == thinPool:
			poolBytes = lv.Size
		case lv.Pool == thinPool:
			promised += max(lv.Size, p.reserved[lv.Name])
		}
	}
	for id, sizeBytes := range p.reserved {
		if lv, is := report.Find(id); !is || lv.Pool != thinPool {
			promised += sizeBytes
		}
	}
	return max(int64(ratio*float64(poolBytes))-promised, 0)
}

// thinPoolBytes is the size of a pool that is to be made.
func (p *pool) thinPoolBytes(report *lvm2.Report) int64 {
	if p.thin.PoolBytes > 0 {
		return p.thin.PoolBytes
	}
	return report.Size / 2 / report.ExtentSize * report.ExtentSize
}

// reserveThin keeps room in the pool of thin volumes for one that is to have a size, until
// given is called: by then it has it, or will not. It makes the pool if there is none,
// and returns ResourceExhausted where it cannot be promised so much.
func (p *pool) reserveThin(ctx context.Context, id string, sizeBytes int64) (given func(), err error) {
	p.reservedMu.Lock()
	defer p.reservedMu.Unlock()
	report, err := p.group.Report(ctx)
	if err != nil {
		return nil, err
	}
	more := sizeBytes
	if lv, is := report.Find(id); is && lv.Pool == thinPool {
		more = max(sizeBytes-lv.Size, 0)
	}
	if free := p.thinFreeBytes(report); more > free {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the thin pool of node %s may be promised %d bytes more, the volume needs %d: delete volumes, make the pool larger or allow more overcommit", p.node, free, more)
	}
	if _, is := report.Find(thinPool); !is {
		if _, err := p.group.Create(ctx, lvm2.Spec{Name: thinPool, Layout: lvm2.ThinPool, Size: p.thinPoolBytes(report)}); err != nil {
			return nil, fmt.Errorf("make the thin pool: %w", err)
		}
	}
	if p.reserved == nil {
		p.reserved = map[string]int64{}
	}
	p.reserved[id] = sizeBytes
	return func() {
		p.reservedMu.Lock()
		defer p.reservedMu.Unlock()
		delete(p.reserved, id)
	}, nil
}

// isFull tells that a report's thin pool takes nothing more.
func isFull(report *lvm2.Report) bool {
	pool, is := report.Find(thinPool)
	return is && (pool.Health == "out_of_data" || pool.DataPercent >= 100 || pool.MetadataPercent >= 100)
}
