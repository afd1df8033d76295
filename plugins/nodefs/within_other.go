//go:build !linux

package nodefs

import (
	"errors"
	"io/fs"
)

// StatWithin implements FS. It returns errors.ErrUnsupported.
func (r *Real) StatWithin(string, string) (Info, error) { return Info{}, errors.ErrUnsupported }

// MkdirWithin implements FS. It returns errors.ErrUnsupported.
func (r *Real) MkdirWithin(string, string, fs.FileMode) error { return errors.ErrUnsupported }

// BindWithin implements FS. It returns errors.ErrUnsupported.
func (r *Real) BindWithin(string, string, string) error { return errors.ErrUnsupported }
