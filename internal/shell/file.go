package shell

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/volsim/volsim/plugins/nodefs"
)

// A fileStream is an open file on the node's disk, or a device. Writes are kept, and reach the disk in
// one access, by flush. So two processes that append to a file both keep their data.
type fileStream struct {
	c         *instance
	name      string // as the program spells it
	node      string
	device    bool // a block device
	appending bool
	offset    int64
	data      []byte // what is read; nil: not read yet
	loaded    bool
	patches   []patch
	size      int // bytes in patches
	failed    error
}

// contentMax is the limit of the size of a file that is changed, since its content is held in memory meanwhile.
const contentMax = 1 << 30

// A patch is a write at an offset, or at the end of the file if it appends.
type patch struct {
	offset int64
	data   []byte
	zeros  int64 // further zeros after data
}

func (p patch) length() int64 { return int64(len(p.data)) + p.zeros }

// flushBytes is how much a file keeps until it is flushed.
const flushBytes = 1 << 20

func (f *fileStream) read(t *task, p []byte) (int, error) {
	if err := f.flush(t); err != nil {
		return 0, err
	}
	if f.device {
		n := 0
		err := t.access("read", f.name, func() (err error) {
			n, err = f.c.runtime.cfg.FS.ReadDevice(f.node, p, f.offset)
			return err
		})
		f.offset += int64(n)
		return n, err
	}
	if !f.loaded {
		err := t.access("read", f.name, func() (err error) {
			f.data, err = f.c.runtime.cfg.FS.ReadFile(f.node)
			return err
		})
		if err != nil {
			return 0, err
		}
		f.loaded = true
	}
	if f.offset >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[f.offset:])
	f.offset += int64(n)
	return n, nil
}

// reload makes the next read see the file as it is then.
func (f *fileStream) reload() { f.loaded, f.data = false, nil }

func (f *fileStream) write(t *task, data []byte) (int, error) {
	f.reload()
	if last := len(f.patches) - 1; last >= 0 && f.patches[last].zeros == 0 &&
		(f.appending || f.patches[last].offset+f.patches[last].length() == f.offset) {
		f.patches[last].data = append(f.patches[last].data, data...)
	} else {
		f.patches = append(f.patches, patch{offset: f.offset, data: append([]byte(nil), data...)})
	}
	f.offset += int64(len(data))
	if f.size += len(data); f.size >= flushBytes {
		return len(data), f.flush(t)
	}
	return len(data), nil
}

// writeZeros writes zeros, which take no memory.
func (f *fileStream) writeZeros(n int64) {
	f.reload()
	if last := len(f.patches) - 1; last >= 0 &&
		(f.appending || f.patches[last].offset+f.patches[last].length() == f.offset) {
		f.patches[last].zeros += n
	} else {
		f.patches = append(f.patches, patch{offset: f.offset, zeros: n})
	}
	f.offset += n
}

// flush writes the patches in one access.
func (f *fileStream) flush(t *task) error {
	if len(f.patches) == 0 {
		return nil
	}
	patches := f.patches
	f.patches, f.size = nil, 0
	return t.access("write", f.name, func() error {
		if f.device {
			return f.applyToDevice(patches)
		}
		return f.apply(patches)
	})
}

// applyToDevice writes patches to a block device.
func (f *fileStream) applyToDevice(patches []patch) error {
	disk := f.c.runtime.cfg.FS
	for _, p := range patches {
		if _, err := disk.WriteDevice(f.node, p.data, p.offset); err != nil {
			return err
		}
		at, end := p.offset+int64(len(p.data)), p.offset+p.length()
		for at < end {
			n, err := disk.WriteDevice(f.node, make([]byte, min(flushBytes, end-at)), at)
			if err != nil {
				return err
			}
			at += int64(n)
		}
	}
	return nil
}

// apply applies patches to the content of the file.
func (f *fileStream) apply(patches []patch) error {
	disk := f.c.runtime.cfg.FS
	info, err := disk.Stat(f.node)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the file was removed while it was open
		}
		return err
	}
	old, err := disk.ReadFile(f.node)
	if err != nil {
		return err
	}
	if len(old) == 0 && len(patches) == 1 && len(patches[0].data) == 0 && (f.appending || patches[0].offset == 0) {
		return errors.Join(disk.WriteZeros(f.node, patches[0].zeros), keepAttributes(disk, f.node, info))
	}
	for _, p := range patches {
		at := p.offset
		if f.appending {
			at = int64(len(old))
		}
		end := at + p.length()
		if end < 0 || end > contentMax {
			return syscall.EFBIG
		}
		if end > int64(len(old)) {
			old = append(old, make([]byte, end-int64(len(old)))...)
		}
		copy(old[at:], p.data)
		clear(old[at+int64(len(p.data)) : at+p.length()])
	}
	return rewrite(disk, f.node, old, info)
}

// rewrite replaces the content of an existing file, and keeps its attributes.
func rewrite(disk nodefs.FS, node string, data []byte, info nodefs.Info) error {
	err := disk.WriteFile(node, data)
	if errors.Is(err, nodefs.ErrMounted) || errors.Is(err, syscall.EBUSY) { // a single file is mounted
		return disk.Overwrite(node, data)
	}
	if err != nil {
		return err
	}
	return keepAttributes(disk, node, info)
}

// keepAttributes restores the owner and the mode of a file that was written.
func keepAttributes(disk nodefs.FS, node string, info nodefs.Info) error {
	now, err := disk.Stat(node)
	if err != nil {
		return err
	}
	if now.UID != info.UID || now.GID != info.GID {
		if err := disk.Chown(node, info.UID, info.GID); err != nil {
			return err
		}
		now.Mode = ^info.Mode
	}
	if now.Mode != info.Mode {
		return disk.Chmod(node, info.Mode)
	}
	return nil
}

func (f *fileStream) close(t *task) {
	if err := f.flush(t); err != nil {
		f.failed = err
	}
}

// openFlags say how a file is opened.
type openFlags struct {
	read, write, create, truncate, appending, exclusive bool
}

// open opens a file, device or virtual entry for the process.
func (s *shell) open(name string, flags openFlags) (*handle, error) {
	c := s.view()
	var here place
	verb := "open"
	if flags.create {
		verb = "create"
	}
	err := s.t.access(verb, s.abs(name), func() (err error) {
		here, err = c.openOnDisk(s.abs(name), flags, 0o666&^s.umask)
		return err
	})
	if err != nil {
		return nil, err
	}
	if v := here.virtual; v != nil {
		if v.open != nil {
			return v.open(s)
		}
		b := &bufferStream{}
		b.WriteString(v.content(c))
		return &handle{stream: b}, nil
	}
	return &handle{stream: &fileStream{c: c, name: s.abs(name), node: here.node, device: here.device, appending: flags.appending && !here.device}}, nil
}

// openOnDisk creates or truncates a file, or checks that it exists. The caller holds Runtime.disk.
func (c *instance) openOnDisk(name string, flags openFlags, mode fs.FileMode) (place, error) {
	disk := c.runtime.cfg.FS
	here, err := c.resolve(name, true)
	switch {
	case err != nil:
		return here, err
	case here.virtual != nil:
		if here.isDir() && flags.write {
			return here, syscall.EISDIR
		}
		if flags.write && here.virtual.open == nil {
			return here, syscall.EROFS
		}
		return here, nil
	case here.isDir():
		if flags.write || flags.create {
			return here, syscall.EISDIR
		}
		return here, nil
	case here.exists && flags.exclusive && here.isRegular():
		return here, syscall.EEXIST
	case here.exists && flags.write && here.readOnly:
		return here, syscall.EROFS
	case here.device:
		return here, nil
	case here.exists && flags.truncate:
		return here, rewrite(disk, here.node, nil, here.info)
	case here.exists:
		return here, nil
	case !flags.create:
		return here, fs.ErrNotExist
	case here.readOnly || here.node == "":
		return here, syscall.EROFS
	}
	if err := disk.WriteFile(here.node, nil); err != nil {
		return here, err
	}
	return here, disk.Chmod(here.node, mode.Perm())
}
