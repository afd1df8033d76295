package lvm2

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"sync"
)

const (
	// headSize is how much of a disk holds LVM's label and the header of its metadata.
	headSize = 8192
	// metadataAt is where that header is on the disks that LVM makes by default. It
	// says where the metadata is and what its checksum is, so that it differs after
	// every change.
	metadataAt = 4096
)

// Words of LVM's format on disks.
var (
	labelMagic    = []byte("LABELONE")
	metadataMagic = []byte(" LVM2 x[5A%r0N*>")
)

// memory is the last report of a volume group, with what the heads of all disks
// were before it was read. While they are the same, so is what LVM would report,
// as far as it is read from disks alone: so this is for Partitions only. It spares
// what takes a command ten milliseconds; whoever changed the disks.
//
// While one reads, others wait: then they may know what they wanted to.
type memory struct {
	reading locks
	mu      sync.Mutex
	heads   []byte
	report  *Report
}

// recall returns the report that LVM would make of a volume group.
func (m *memory) recall(ctx context.Context, s *System, group string) (*Report, error) {
	heads := s.heads()
	if known := m.known(heads); known != nil {
		return known.clone(), nil
	}
	if heads != nil {
		leave, err := m.reading.acquire(ctx, group)
		if err != nil {
			return nil, err
		}
		defer leave()
		heads = s.heads()
		if known := m.known(heads); known != nil {
			return known.clone(), nil
		}
	}
	report, err := s.report(ctx, group)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heads, m.report = heads, report
	return report.clone(), nil
}

// known returns the last report if the heads of all disks are what they were.
func (m *memory) known(heads []byte) *Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	if heads == nil || !bytes.Equal(heads, m.heads) {
		return nil
	}
	return m.report
}

// heads returns the heads of all disks, or nil if they do not say enough: a disk
// cannot be read, or keeps its metadata elsewhere.
func (s *System) heads() []byte {
	if s.mode != Partitions {
		return nil
	}
	disks := s.Disks()
	heads := make([]byte, 0, len(disks)*headSize)
	for _, disk := range disks {
		head, ok := headOf(s.node(disk.Name))
		if !ok {
			return nil
		}
		heads = append(append(heads, disk.Name...), head...)
	}
	return heads
}

func headOf(device string) ([]byte, bool) {
	file, err := os.Open(device)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	head := make([]byte, headSize)
	if _, err := io.ReadFull(file, head); err != nil {
		return nil, false
	}
	isPhysical := bytes.Contains(head[:4*sectorSize], labelMagic)
	return head, !isPhysical || bytes.HasPrefix(head[metadataAt+4:], metadataMagic)
}

// clone returns a report that shares nothing with another.
func (r *Report) clone() *Report {
	c := *r
	c.Tags = slices.Clone(r.Tags)
	c.PhysicalVolumes = slices.Clone(r.PhysicalVolumes)
	for i := range c.PhysicalVolumes {
		c.PhysicalVolumes[i].Unused = slices.Clone(c.PhysicalVolumes[i].Unused)
	}
	c.LogicalVolumes = slices.Clone(r.LogicalVolumes)
	for i := range c.LogicalVolumes {
		c.LogicalVolumes[i].Tags = slices.Clone(c.LogicalVolumes[i].Tags)
		c.LogicalVolumes[i].Extents = slices.Clone(c.LogicalVolumes[i].Extents)
	}
	return &c
}
