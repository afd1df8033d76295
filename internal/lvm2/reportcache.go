package lvm2

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
)

// reportCache is the last report of a volume group, with what the heads of all disks
// were that it is of. While they are the same, so is what LVM would report, as far
// as it is read from disks alone: so this is for Partitions only. It spares what
// takes a command ten milliseconds or more; whoever changed the disks.
//
// While one reads, others wait: then they may know what they wanted to.
type reportCache struct {
	reading locks
	mu      sync.Mutex
	heads   []head
	report  *Report
}

// get returns the report that LVM would make of a volume group. It is shared,
// and not to be changed.
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

// reportFrom reads the metadata that heads tell of, if that is easily said, and asks
// LVM if not.
func (s *System) reportFrom(ctx context.Context, heads []head, group string) (*Report, error) {
	if heads != nil {
		report, err := s.reportOf(heads, group)
		if !errors.Is(err, errNotSimple) {
			return report, err
		}
	}
	return s.report(ctx, group)
}

// lookup returns the last report if the heads of all disks are what they were.
func (m *reportCache) lookup(heads []head) *Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	same := func(a, b head) bool { return a.disk == b.disk && bytes.Equal(a.raw, b.raw) }
	if heads == nil || !slices.EqualFunc(heads, m.heads, same) {
		return nil
	}
	return m.report
}

// heads returns the heads of all disks, or nil if they do not say enough: see readHead.
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

// clone returns a volume that shares nothing with the report that it is of.
func (v LogicalVolume) clone() LogicalVolume {
	v.Tags, v.Extents = slices.Clone(v.Tags), slices.Clone(v.Extents)
	return v
}
