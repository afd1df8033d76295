//go:build !linux

package nodefs

import "errors"

// WriteZeros returns errors.ErrUnsupported.
func (r *Real) WriteZeros(string, int64) error { return errors.ErrUnsupported }
