//go:build !linux

package nodefs

import "errors"

func wipe(string, string) error { return errors.ErrUnsupported }

// Capacity returns errors.ErrUnsupported.
func (r *Real) Capacity(string) (int64, error) { return 0, errors.ErrUnsupported }
