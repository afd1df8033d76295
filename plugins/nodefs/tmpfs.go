package nodefs

import (
	"errors"
	"fmt"
	"io/fs"
)

// tmpfsType is the type of a file system in memory, and its source in the mount table.
const tmpfsType = "tmpfs"

// tmpfsMode is the mode that the kernel gives the top of a tmpfs.
const tmpfsMode = fs.ModeSticky | 0o777

// errNegativeSize is the error for a tmpfs of less than no bytes.
var errNegativeSize = errors.New("negative size of a tmpfs")

// MountTmpfs implements FS.
func (r *Real) MountTmpfs(target string, size int64) error {
	to, err := r.resolveMountTarget(target, true)
	if err != nil {
		return err
	}
	var options []string
	switch {
	case size < 0:
		return pathError("mount", target, errNegativeSize)
	case size > 0:
		options = append(options, fmt.Sprintf("size=%d", size))
	}
	if err := r.mounter.Mount(tmpfsType, to, tmpfsType, options); err != nil {
		return fmt.Errorf("mount tmpfs at %s: %w", target, err)
	}
	return nil
}

// MountTmpfs implements FS. The size limits nothing; Capacity returns it.
func (m *Memory) MountTmpfs(target string, size int64) error {
	if size < 0 {
		return pathError("mount", target, errNegativeSize)
	}
	tree := NewTree()
	tree.root.mode = tmpfsMode
	tree.capacity.Store(size)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attach(target, &mount{tree: tree, at: tree.root, source: tmpfsType, fsType: tmpfsType})
}
