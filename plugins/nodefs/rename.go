package nodefs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

// Rename implements FS.
func (r *Real) Rename(from, to string) error {
	source, err := r.resolveEntry(from)
	if err != nil {
		return err
	}
	target, err := r.resolveEntry(to)
	if err != nil {
		return err
	}
	// The kernel refuses to move a mount point, and to replace one, but not in every case to move a
	// directory in which something is mounted.
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(source))
	if err != nil {
		return fmt.Errorf("read the mount table: %w", err)
	}
	if len(mounts) > 0 {
		return pathError("rename", from, ErrMounted)
	}
	err = pathError("rename", from, syscall.Rename(source, target)) // os.Rename refuses directories
	if errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOTEMPTY) {
		return pathError("rename", to, ErrNotEmpty)
	}
	return classify(err)
}

// Rename implements FS.
func (m *Memory) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	source, err := m.locateEntry(from)
	if err != nil {
		return err
	}
	target, err := m.locateEntry(to)
	if err != nil {
		return err
	}
	for _, place := range []struct {
		location
		name string
	}{{source, from}, {target, to}} {
		if place.rest == "" {
			return pathError("rename", place.name, m.topError(place.location))
		}
	}
	switch {
	case source.mount != target.mount:
		return pathError("rename", to, syscall.EXDEV)
	case m.mountedIn(source.path):
		return pathError("rename", from, ErrMounted)
	case source.contains(target):
		return pathError("rename", to, syscall.EINVAL)
	}
	return source.change("rename", from, func(top *node) error { return top.rename(source.elements(), target.elements()) })
}

// contains reports whether the path of other is below the directory s.
func (s location) contains(other location) bool {
	found, err := s.find()
	return err == nil && found.isDirectory() && strings.HasPrefix(other.path, s.path+"/")
}

// topError returns the error for the removal or replacement of the top of a mount.
func (m *Memory) topError(top location) error {
	if top.mount == m.disk {
		return ErrOutside
	}
	return ErrMounted
}

// mountedIn reports whether something is mounted at a path or below it. The caller holds mu.
func (m *Memory) mountedIn(path string) bool {
	for key := range m.mounts {
		if key.path == path || strings.HasPrefix(key.path, path+"/") {
			return true
		}
	}
	return false
}

// rename moves the entry that from names to where to leads.
func (n *node) rename(from, to []string) error {
	source, name, err := n.parent(from)
	if err != nil {
		return err
	}
	moved := source.children[name]
	if moved == nil {
		return fs.ErrNotExist
	}
	target, newName, err := n.parent(to)
	if err != nil {
		return err
	}
	switch old := target.children[newName]; {
	case old == moved:
		return nil
	case old == nil:
	case moved.isDirectory() && !old.isDirectory():
		return syscall.ENOTDIR
	case !moved.isDirectory() && old.isDirectory():
		return syscall.EISDIR
	case len(old.children) > 0:
		return ErrNotEmpty
	}
	delete(source.children, name)
	target.put(newName, moved)
	return nil
}
