//go:build !linux

package nodefs

import (
	"errors"
	"io/fs"
)

func infoOf(info fs.FileInfo) Info { return Info{Mode: info.Mode()} }

// DeviceOf returns errors.ErrUnsupported.
func (r *Real) DeviceOf(string) (string, error) { return "", errors.ErrUnsupported }
