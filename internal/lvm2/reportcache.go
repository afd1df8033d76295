package lvm2

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
)

// reportCache is the last report of a volume group with the heads of all disks that it was read
// from. While the heads are unchanged, so is the report. That holds only for what LVM reads from
// disks, so the cache is for Partitions only. It saves a command of at least ten milliseconds,
// whichever process changed the disks.
//
// While one caller reads, others wait and then use its result.
type reportCache struct {
	reading locks
	mu      sync.Mutex
	heads   []head
	report  *Report
}

// get returns LVM's report of a volume group. It is shared, and callers must not change it.
func (m *reportCache) get(ctx context.Context, s *System, group string) (*Report, error) {
	heads := s.heads()
	if known := m.lookup(heads); known != nil {
		return known, nil
	}
	if heads != nil {
		leave, err := m.reading.acquire(ctx, group)
		if err != nil {
			return nil, err
		}
		defer leave()
		heads = s.heads()
		if known := m.lookup(heads); known != nil {
			return known, nil
		}
	}
	report, err := s.reportFrom(ctx, heads, group)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heads, m.report = heads, report
	return report, nil
}

// reportFrom parses the metadata that heads refer to. If it is not simple, LVM reads it.
func (s *System) reportFrom(ctx context.Context, heads []head, group string) (*Report, error) {
	if heads != nil {
		report, err := s.reportOf(heads, group)
		if !errors.Is(err, errNotSimple) {
			return report, err
		}
	}
	return s.report(ctx, group)
}

// lookup returns the last report if the heads of all disks are unchanged.
func (m *reportCache) lookup(heads []head) *Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	same := func(a, b head) bool { return a.disk == b.disk && bytes.Equal(a.raw, b.raw) }
	if heads == nil || !slices.EqualFunc(heads, m.heads, same) {
		return nil
	}
	return m.report
}

// heads returns the heads of all disks, or nil if one of them does not suffice; see readHead.
func (s *System) heads() []head {
	if s.mode != Partitions {
		return nil
	}
	disks := s.Disks()
	heads := make([]head, 0, len(disks))
	for _, disk := range disks {
		each, ok := s.readHead(disk)
		if !ok {
			return nil
		}
		heads = append(heads, each)
	}
	return heads
}

// clone returns a copy of a volume that shares nothing with its report.
func (v LogicalVolume) clone() LogicalVolume {
	v.Tags, v.Extents = slices.Clone(v.Tags), slices.Clone(v.Extents)
	return v
}
