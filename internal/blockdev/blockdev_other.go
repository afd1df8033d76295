//go:build !linux

package blockdev

import "github.com/moby/sys/mountinfo"

// NumberOf returns ErrUnsupported.
func NumberOf(string) (Number, error) { return Number{}, ErrUnsupported }

// Size returns ErrUnsupported.
func Size(string) (int64, error) { return 0, ErrUnsupported }

// InUse returns ErrUnsupported.
func InUse(string) (bool, error) { return false, ErrUnsupported }

// IsOpen returns ErrUnsupported.
func IsOpen(string) (bool, error) { return false, ErrUnsupported }

// Flush returns ErrUnsupported.
func Flush(string) error { return ErrUnsupported }

// SetReadOnly returns ErrUnsupported.
func SetReadOnly(string, bool) error { return ErrUnsupported }

// SetReadAhead returns ErrUnsupported.
func SetReadAhead(string, int64) (bool, error) { return false, ErrUnsupported }

// Mounts returns ErrUnsupported.
func Mounts(string) ([]*mountinfo.Info, error) { return nil, ErrUnsupported }

// Frozen is unused on this system.
type Frozen struct{}

// Freeze returns ErrUnsupported.
func Freeze(string) (*Frozen, error) { return nil, ErrUnsupported }

// Thaw does nothing.
func (*Frozen) Thaw() error { return nil }

// Thaw returns ErrUnsupported.
func Thaw(string) (bool, error) { return false, ErrUnsupported }
