package lvm

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/lvm2"
)

// thinFreeBytes returns the bytes that can still be provisioned for thin volumes; 0 if the pool is
// full. The caller holds reservedMu.
func (p *pool) thinFreeBytes(report *lvm2.Report) int64 {
	if isFull(report) {
		return 0
	}
	ratio := cmp.Or(p.thin.OvercommitRatio, 1)
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
		if lv, found := report.Find(id); !found || lv.Pool != thinPool {
			promised += sizeBytes
		}
	}
	provisionable := int64(math.MaxInt64)
	if limit := ratio * float64(poolBytes); limit < math.MaxInt64 {
		provisionable = int64(limit)
	}
	return max(provisionable-promised, 0)
}

// thinPoolBytes returns the size of a new pool.
func (p *pool) thinPoolBytes(report *lvm2.Report) int64 {
	if p.thin.PoolBytes > 0 {
		return p.thin.PoolBytes
	}
	return report.Size / 2 / report.ExtentSize * report.ExtentSize
}

// reserveThin reserves space in the thin pool for a volume of a size until release is called, when
// the volume has that size or never will. It creates a missing pool. It returns ResourceExhausted
// if the pool cannot provision the volume.
func (p *pool) reserveThin(ctx context.Context, id string, sizeBytes int64) (release func(), err error) {
	p.reservedMu.Lock()
	defer p.reservedMu.Unlock()
	report, err := p.group.Report(ctx)
	if err != nil {
		return nil, err
	}
	more := sizeBytes
	if lv, found := report.Find(id); found && lv.Pool == thinPool {
		more = max(sizeBytes-lv.Size, 0)
	}
	if free := p.thinFreeBytes(report); more > free {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the thin pool of node %s can provision %d more bytes, the volume needs %d: "+
				"delete volumes, enlarge the pool or allow more overcommit", p.node, free, more)
	}
	if _, found := report.Find(thinPool); !found {
		if _, err := p.group.Create(ctx, lvm2.Spec{
			Name: thinPool, Layout: lvm2.ThinPool, Size: p.thinPoolBytes(report),
		}); err != nil {
			return nil, fmt.Errorf("create the thin pool: %w", err)
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

// isFull reports whether the thin pool of a report is full.
func isFull(report *lvm2.Report) bool {
	pool, found := report.Find(thinPool)
	return found && (pool.Health == "out_of_data" || pool.DataPercent >= 100 || pool.MetadataPercent >= 100)
}
