package lvm2

import (
	"context"
	"fmt"
	"slices"
)

// PoolUsage describes how much of a thin pool is provisioned and used.
type PoolUsage struct {
	Size        int64 // in bytes
	Provisioned int64 // sum of the sizes of its volumes
	Used        int64 // part of Size
}

// LargestContiguous returns the size of the longest run of free extents on one disk, in bytes.
func (r *Report) LargestContiguous() int64 {
	var longest int64
	for _, physical := range r.PhysicalVolumes {
		if physical.Missing {
			continue
		}
		for _, run := range physical.Unused {
			longest = max(longest, run.Length)
		}
	}
	return longest * r.ExtentSize
}

// PoolUsage returns the usage of a thin pool.
func (r *Report) PoolUsage(pool string) (PoolUsage, bool) {
	volume, ok := r.Find(pool)
	if !ok || volume.Layout != ThinPool {
		return PoolUsage{}, false
	}
	use := PoolUsage{Size: volume.Size, Used: int64(float64(volume.Size) * volume.DataPercent / 100)}
	for _, each := range r.LogicalVolumes {
		if each.Pool == pool {
			use.Provisioned += each.Size
		}
	}
	return use, true
}

// Largest returns the size, in bytes, of the largest volume that can be created now with the
// layout, stripes, mirrors or pool of spec. It ignores spec's name and size. A thin volume may have
// what its pool has left. A caller that overcommits multiplies that and watches PoolUsage.
func (g *VolumeGroup) Largest(ctx context.Context, spec Spec) (int64, error) {
	report, err := g.Report(ctx)
	if err != nil {
		return 0, err
	}
	if spec.Layout == "" {
		spec.Layout = Linear
	}
	if !g.Capabilities().has(spec.Layout) {
		return 0, fmt.Errorf("layout %s: %w", spec.Layout, ErrUnsupported)
	}
	if spec.Layout == Linear && !g.Capabilities().NonContiguous {
		return report.LargestContiguous(), nil
	}
	return report.largest(spec)
}

// largest works like Largest for volumes that may have several segments.
func (r *Report) largest(spec Spec) (int64, error) {
	switch spec.Layout {
	case Linear:
		return r.Free, nil
	case Striped:
		return r.leastFree(spec.Stripes) * int64(spec.Stripes), nil
	case RAID1:
		// Each copy has an additional extent that records its synchronization.
		return max(0, r.leastFree(max(1, spec.Mirrors)+1)-r.ExtentSize), nil
	case Thin:
		use, ok := r.PoolUsage(spec.Pool)
		if !ok {
			return 0, fmt.Errorf("pool %s: %w", spec.Pool, ErrNotFound)
		}
		return use.Size - use.Used, nil
	case ThinPool, Snapshot:
	}
	return 0, fmt.Errorf("layout %q: %w", spec.Layout, ErrInvalidArgument)
}

// leastFree returns the free bytes on each of the count emptiest disks.
func (r *Report) leastFree(count int) int64 {
	var free []int64
	for _, physical := range r.PhysicalVolumes {
		if !physical.Missing {
			free = append(free, physical.Free)
		}
	}
	slices.Sort(free)
	if count < 1 || count > len(free) {
		return 0
	}
	return free[len(free)-count]
}
