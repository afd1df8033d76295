package shell

import (
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/volsim/volsim/plugins/nodefs"
)

// rootDirs are the directories of a new root directory, with their modes.
var rootDirs = []struct {
	name string
	mode fs.FileMode
}{
	{"", 0o755},
	{"etc", 0o755},
	{"home", 0o755},
	{"mnt", 0o755},
	{"opt", 0o755},
	{"root", 0o700},
	{"run", 0o755},
	{"tmp", fs.ModeSticky | 0o777},
	{"var", 0o755},
}

// prepareRoot makes the root directory of a run. What an earlier run left is removed.
func (t *task) prepareRoot() error {
	c := t.c
	return t.access("prepare", c.name(), func() error {
		disk := c.runtime.cfg.FS
		if err := disk.RemoveAll(c.root); err != nil {
			return err
		}
		for _, dir := range rootDirs {
			at := path.Join(c.root, dir.name)
			if err := disk.MkdirAll(at); err != nil {
				return err
			}
			if err := disk.Chmod(at, dir.mode); err != nil {
				return err
			}
		}
		for _, file := range []struct{ name, content string }{
			{"group", "root:x:0:\nnogroup:x:65534:\n"},
			{"hostname", c.spec.Hostname + "\n"},
			{"hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n127.0.0.1\t" + c.spec.Hostname + "\n"},
			{"passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"},
			{"resolv.conf", "search svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"},
		} {
			at := path.Join(c.root, "etc", file.name)
			if err := disk.WriteFile(at, []byte(file.content)); err != nil {
				return err
			}
			if err := disk.Chmod(at, 0o644); err != nil {
				return err
			}
		}
		return c.makeMountPoints()
	})
}

// makeMountPoints makes the directories in the root directory that have mounts.
func (c *instance) makeMountPoints() error {
	for _, m := range c.spec.Mounts {
		dir := c.lookup(path.Dir(m.Path))
		if _, inRoot := below(c.root, dir.node); dir.node == "" || !inRoot {
			continue
		}
		if err := c.runtime.cfg.FS.MkdirAll(dir.node); err != nil {
			return err
		}
		for at := dir.node; at != c.root; at = path.Dir(at) {
			if info, err := c.runtime.cfg.FS.Stat(at); err == nil && info.Mode.Perm() == 0o750 {
				if err := c.runtime.cfg.FS.Chmod(at, 0o755); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// removeRoot removes the root directory of a run whose pod is removed.
func (c *instance) removeRoot() {
	t := &task{c: c, dying: true}
	_ = t.access("remove", c.name(), func() error {
		disk := c.runtime.cfg.FS
		if err := disk.RemoveAll(c.root); err != nil {
			return err
		}
		err := disk.Remove(path.Dir(c.root)) // of the pod, after its last container
		if errors.Is(err, nodefs.ErrNotEmpty) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// at is one access to what a path refers to.
func (s *shell) at(verb, name string, follow bool, f func(disk nodefs.FS, here place) error) error {
	full := s.abs(name)
	return s.t.access(verb, full, func() error {
		if name == "" {
			return fs.ErrNotExist
		}
		here, err := s.view().resolve(full, follow)
		if err != nil {
			return err
		}
		return f(s.t.c.runtime.cfg.FS, here)
	})
}

// stat returns the place of an existing path.
func (s *shell) stat(name string, follow bool) (here place, err error) {
	err = s.at("stat", name, follow, func(_ nodefs.FS, at place) error {
		if here = at; !here.exists {
			return fs.ErrNotExist
		}
		return nil
	})
	return here, err
}

// writable returns the error for a change at a place.
func (p place) writable() error {
	switch {
	case p.readOnly:
		return syscall.EROFS
	case p.node == "":
		return fs.ErrPermission
	}
	return nil
}

// removable returns the error for the removal or replacement of an entry.
func (p place) removable() error {
	if p.top {
		return syscall.EBUSY
	}
	return p.writable()
}

// size returns the number of bytes of a file or link.
func (c *instance) size(here place) int64 {
	disk := c.runtime.cfg.FS
	switch {
	case here.isLink():
		target, _ := disk.Readlink(here.node)
		return int64(len(target))
	case here.isDir():
		return 4096
	case here.virtual != nil && here.virtual.content != nil:
		return int64(len(here.virtual.content(c)))
	case here.device:
		size, _ := disk.Capacity(here.node)
		return size
	case here.virtual != nil:
		return 0
	}
	data, _ := disk.ReadFile(here.node)
	return int64(len(data))
}

// sizeOf is size in one access.
func (s *shell) sizeOf(name string, follow bool) (size int64, err error) {
	err = s.at("stat", name, follow, func(_ nodefs.FS, here place) error {
		if !here.exists {
			return fs.ErrNotExist
		}
		size = s.view().size(here)
		return nil
	})
	return size, err
}

// readDir returns the names in a directory.
func (s *shell) readDir(name string) (names []string, err error) {
	err = s.at("readdir", name, true, func(_ nodefs.FS, here place) error {
		names, err = s.view().readDir(here)
		return err
	})
	return names, err
}

// readFile returns the content of a file.
func (s *shell) readFile(name string) (data []byte, err error) {
	err = s.at("read", name, true, func(disk nodefs.FS, here place) error {
		switch {
		case here.virtual != nil && here.virtual.content != nil:
			data = []byte(here.virtual.content(s.view()))
			return nil
		case !here.exists:
			return fs.ErrNotExist
		case here.isDir():
			return syscall.EISDIR
		case here.virtual != nil:
			return nil
		}
		data, err = disk.ReadFile(here.node)
		return err
	})
	return data, err
}

// writeFile creates a file or replaces its content.
func (s *shell) writeFile(name string, data []byte, mode fs.FileMode) error {
	return s.at("write", name, true, func(disk nodefs.FS, here place) error {
		if err := here.writable(); err != nil {
			return err
		}
		if here.exists {
			return rewrite(disk, here.node, data, here.info)
		}
		return errors.Join(disk.WriteFile(here.node, data), disk.Chmod(here.node, mode&^s.umask))
	})
}

// mkdir makes a directory, with its missing parents if parents is set.
func (s *shell) mkdir(name string, mode fs.FileMode, parents bool) error {
	return s.at("mkdir", name, true, func(disk nodefs.FS, here place) error {
		return s.makeDir(disk, here, mode, parents)
	})
}

func (s *shell) makeDir(disk nodefs.FS, here place, mode fs.FileMode, parents bool) error {
	if here.exists {
		if parents && here.isDir() {
			return nil
		}
		return fs.ErrExist
	}
	if err := here.writable(); err != nil {
		return err
	}
	if err := disk.MkdirAll(here.node); err != nil {
		return err
	}
	info, err := disk.Stat(here.node)
	if err != nil {
		return err
	}
	return disk.Chmod(here.node, mode&^s.umask|info.Mode&fs.ModeSetgid)
}

// mkdirAll makes a directory and its missing parents.
func (s *shell) mkdirAll(name string, mode fs.FileMode) error {
	if here, err := s.stat(name, true); err == nil {
		if here.isDir() {
			return nil
		}
		return fs.ErrExist
	}
	if parent := path.Dir(path.Clean(s.abs(name))); parent != "/" {
		if err := s.mkdirAll(parent, 0o777); err != nil {
			return err
		}
	}
	return s.mkdir(name, mode, true)
}

// unlink removes a file, link or empty directory.
func (s *shell) unlink(name string, dir bool) error {
	return s.at("remove", name, false, func(disk nodefs.FS, here place) error {
		switch {
		case !here.exists:
			return fs.ErrNotExist
		case dir && !here.isDir():
			return syscall.ENOTDIR
		case !dir && here.isDir():
			return syscall.EISDIR
		}
		if err := here.removable(); err != nil {
			return err
		}
		if dir && len(s.view().mountedIn(here.path)) > 0 {
			return syscall.EBUSY
		}
		return disk.Remove(here.node)
	})
}

// rename moves an entry.
func (s *shell) rename(from, to string) error {
	c := s.view()
	return s.at("rename", from, false, func(disk nodefs.FS, source place) error {
		target, err := c.resolve(s.abs(to), false)
		switch {
		case err != nil:
			return err
		case !source.exists:
			return fs.ErrNotExist
		}
		if err := errors.Join(source.removable(), target.removable()); err != nil {
			return err
		}
		if c.mountOf(source.path) != c.mountOf(target.path) {
			return syscall.EXDEV
		}
		return disk.Rename(source.node, target.node)
	})
}

// mountOf returns the path of the mount that has a path; "" for the root directory.
func (c *instance) mountOf(name string) string {
	longest := ""
	for _, m := range c.spec.Mounts {
		if _, ok := below(m.Path, name); ok && len(m.Path) > len(longest) {
			longest = m.Path
		}
	}
	return longest
}

// symlink makes a symbolic link.
func (s *shell) symlink(target, name string) error {
	return s.at("symlink", name, false, func(disk nodefs.FS, here place) error {
		if here.exists {
			return fs.ErrExist
		}
		if err := here.writable(); err != nil {
			return err
		}
		return disk.Symlink(target, here.node)
	})
}

// readlink returns the target of a link.
func (s *shell) readlink(name string) (target string, err error) {
	err = s.at("readlink", name, false, func(disk nodefs.FS, here place) error {
		switch {
		case !here.exists:
			return fs.ErrNotExist
		case !here.isLink():
			return syscall.EINVAL
		}
		target, err = disk.Readlink(here.node)
		return err
	})
	return target, err
}

// change changes the attributes of an existing entry.
func (s *shell) change(verb, name string, follow bool, f func(disk nodefs.FS, here place) error) error {
	return s.at(verb, name, follow, func(disk nodefs.FS, here place) error {
		if !here.exists {
			return fs.ErrNotExist
		}
		if err := here.writable(); err != nil {
			return err
		}
		return f(disk, here)
	})
}
