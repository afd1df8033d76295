package lvm2

import (
	"bytes"
	"context"
	"fmt"
	"slices"
)

// CheckEmpty returns an error for a disk with data in its first 4 KiB: LVM's own for a known signature,
// otherwise ErrUnknownData. It changes nothing. A physical volume is accepted. So is a disk that was one:
// without its label the first 4 KiB are zero, and only remains of metadata follow.
func (s *System) CheckEmpty(ctx context.Context, name string) error {
	nodes, err := s.nodes([]string{name})
	if err != nil {
		return err
	}
	start := make([]byte, metadataAt)
	if _, _, err := readStart(nodes[0], start); err != nil {
		return fmt.Errorf("disk %s: %w", name, err)
	}
	if len(bytes.Trim(start, "\x00")) == 0 || uuidOf(start) != "" {
		return nil
	}
	if _, err := s.lvm(ctx, slices.Concat([]string{"pvcreate", "--test", "-q"}, s.layout, nodes)...); err != nil {
		return err
	}
	return fmt.Errorf("disk %s: %w", name, ErrUnknownData)
}
