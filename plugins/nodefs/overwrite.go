package nodefs

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// overwriter changes files in place.
type overwriter interface {
	// Overwrite replaces the content of an existing file in place: what is mounted there stays, and the owner and the
	// mode, too. It does not follow a symbolic link at path. For anything but a file it returns syscall.EINVAL.
	Overwrite(path string, data []byte) error
}

// Overwrite implements FS.
func (m *Memory) Overwrite(name string, data []byte) error {
	return m.changeEntry("write", name, func(n *node) error {
		if n.kind() != 0 {
			return syscall.EINVAL
		}
		n.data, n.zeros = slices.Clone(data), 0
		return nil
	})
}

// Overwrite implements FS. A reader may see a part of the new content.
func (r *Real) Overwrite(name string, data []byte) error {
	place, err := r.resolveEntry(name)
	if err != nil {
		return err
	}
	info, err := os.Lstat(place)
	if err != nil {
		return classify(err)
	}
	if !info.Mode().IsRegular() {
		return pathError("write", name, syscall.EINVAL)
	}
	file, err := os.OpenFile(place, os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, fs.FileMode(0))
	if err != nil {
		return classify(err)
	}
	_, err = file.Write(data)
	return classify(errors.Join(err, file.Close()))
}
