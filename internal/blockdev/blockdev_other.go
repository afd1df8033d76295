//go:build !linux

package blockdev

import "github.com/moby/sys/mountinfo"

// NumberOf gives ErrUnsupported, as all do here.
func NumberOf(string) (Number, error) { return Number{}, ErrUnsupported }

// Size gives ErrUnsupported.
func Size(string) (int64, error) { return 0, ErrUnsupported }

// InUse gives ErrUnsupported.
func InUse(string) (bool, error) { return false, ErrUnsupported }

// IsOpen gives ErrUnsupported.
func IsOpen(string) (bool, error) { return false, ErrUnsupported }

// Flush gives ErrUnsupported.
func Flush(string) error { return ErrUnsupported }

// SetReadOnly gives ErrUnsupported.
func SetReadOnly(string, bool) error { return ErrUnsupported }

// SetReadAhead gives ErrUnsupported.
func SetReadAhead(string, int64) (bool, error) { return false, ErrUnsupported }

// Mounts gives ErrUnsupported.
func Mounts(string) ([]*mountinfo.Info, error) { return nil, ErrUnsupported }

// Frozen is nothing here.
type Frozen struct{}

// Freeze gives ErrUnsupported.
func Freeze(string) (*Frozen, error) { return nil, ErrUnsupported }

// Thaw does nothing.
func (*Frozen) Thaw() error { return nil }

// Thaw gives ErrUnsupported.
func Thaw(string) (bool, error) { return false, ErrUnsupported }
