package nodefs

import (
	"errors"
	"io/fs"
	"os"
)

// attributeBits are the mode bits that Chmod sets.
const attributeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// Stat implements FS.
func (r *Real) Stat(name string) (Info, error) {
	place, err := r.resolveSelf(name)
	if err != nil {
		return Info{}, err
	}
	info, err := os.Lstat(place)
	if err != nil {
		return Info{}, err
	}
	return infoOf(info), nil
}

// Chown implements FS.
func (r *Real) Chown(name string, uid, gid int) error {
	place, err := r.resolveSelf(name)
	if err != nil {
		return err
	}
	return classify(os.Lchown(place, uid, gid))
}

// Chmod implements FS.
func (r *Real) Chmod(name string, mode fs.FileMode) error {
	place, err := r.resolveSelf(name)
	if err != nil {
		return err
	}
	info, err := os.Lstat(place)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return pathError("chmod", name, errors.ErrUnsupported)
	}
	return classify(os.Chmod(place, mode&attributeBits))
}

// Stat implements FS.
func (m *Memory) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locateEntry(name)
	if err != nil {
		return Info{}, err
	}
	var info Info
	err = here.read("stat", name, func(n *node) error {
		info = n.info()
		return nil
	})
	return info, err
}

// Chown implements FS.
func (m *Memory) Chown(name string, uid, gid int) error {
	return m.changeEntry("chown", name, func(n *node) error {
		if uid >= 0 {
			n.uid = uid
		}
		if gid >= 0 {
			n.gid = gid
		}
		if !n.isDirectory() { // as the kernel does, so that a program does not run as its new owner
			n.mode &^= fs.ModeSetuid
			if n.mode&0o010 != 0 {
				n.mode &^= fs.ModeSetgid
			}
		}
		return nil
	})
}

// Chmod implements FS.
func (m *Memory) Chmod(name string, mode fs.FileMode) error {
	return m.changeEntry("chmod", name, func(n *node) error {
		if n.link != "" {
			return errors.ErrUnsupported
		}
		n.mode = mode & attributeBits
		return nil
	})
}

// changeEntry calls apply with the entry at name. It does not follow a symbolic link there.
func (m *Memory) changeEntry(operation, name string, apply func(n *node) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locateEntry(name)
	if err != nil {
		return err
	}
	return here.change(operation, name, func(top *node) error {
		found, err := top.findPath(here.rest)
		if err != nil {
			return err
		}
		return apply(found)
	})
}
