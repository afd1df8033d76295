package shell

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/volsim/volsim/plugins/nodefs"
)

// linksMax bounds the symbolic links on one path, as the kernel does.
const linksMax = 40

// A place is what a path in a container refers to.
type place struct {
	path     string // in the container, absolute, without links
	node     string // on the node's disk; "" for a virtual entry
	readOnly bool
	virtual  *virtualEntry // nil: on the disk
	device   bool          // a device of the container
	top      bool          // a mount point, or the root directory
	exists   bool
	info     nodefs.Info // if it exists
}

func (p place) isDir() bool     { return p.exists && p.info.Mode.IsDir() }
func (p place) isLink() bool    { return p.exists && p.info.Mode&fs.ModeSymlink != 0 }
func (p place) isRegular() bool { return p.exists && p.info.Mode.IsRegular() }

// resolve returns the place of an absolute path. It follows symbolic links inside the container, the
// last one only if follow is set or a slash follows it. The last element need not exist. The caller
// holds Runtime.disk.
func (c *instance) resolve(name string, follow bool) (place, error) {
	trimmed := strings.TrimRight(name, "/")
	mustBeDir := trimmed != name && trimmed != ""
	here, err := c.walk(strings.Split(trimmed, "/"), follow || mustBeDir)
	if err == nil && mustBeDir && here.exists && !here.isDir() {
		err = syscall.ENOTDIR
	}
	return here, err
}

// walk resolves the elements of a path one after the other, below the root directory.
func (c *instance) walk(elements []string, follow bool) (place, error) {
	at, hops := "/", 0
	here := c.lookup(at)
	for len(elements) > 0 {
		element := elements[0]
		elements = elements[1:]
		switch element {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			here = c.lookup(at)
			continue
		}
		last := !slices.ContainsFunc(elements, func(e string) bool { return e != "" })
		here = c.lookup(path.Join(at, element))
		switch {
		case !here.exists && last:
			return here, nil
		case !here.exists:
			return here, fs.ErrNotExist
		case here.isLink() && (follow || !last):
			if hops++; hops > linksMax {
				return here, syscall.ELOOP
			}
			target, err := c.runtime.cfg.FS.Readlink(here.node)
			if err != nil {
				return here, err
			}
			if path.IsAbs(target) {
				at = "/"
			}
			elements = slices.Concat(strings.Split(target, "/"), elements)
			here = c.lookup(at)
			continue
		case !last && !here.isDir():
			return here, syscall.ENOTDIR
		}
		at = here.path
	}
	return here, nil
}

// lookup returns the place of a path without links: in the mount or device with the longest path that
// contains it, otherwise in a virtual directory or the root directory.
func (c *instance) lookup(name string) place {
	here := place{path: name, node: path.Join(c.root, name), readOnly: c.spec.ReadOnly, top: name == "/"}
	longest := 0
	for _, m := range c.spec.Mounts {
		if rest, ok := below(m.Path, name); ok && len(m.Path) > longest {
			longest = len(m.Path)
			here.node, here.readOnly, here.top = path.Join(m.Source, rest), m.ReadOnly, rest == ""
		}
	}
	for _, d := range c.spec.Devices {
		if d.Path == name {
			here.node, here.device, here.top, here.exists = d.Source, true, true, true
			here.info = nodefs.Info{Mode: fs.ModeDevice | 0o660}
			return here
		}
	}
	if v, length := virtualAt(c, name); length > longest {
		here.node, here.readOnly, here.top = "", true, false
		if v != nil {
			here.virtual, here.exists, here.info = v, true, nodefs.Info{Mode: v.mode}
			return here
		}
		c.implyDir(&here)
		return here
	}
	here.info, here.exists = c.stat(here)
	if !here.exists {
		c.implyDir(&here)
	}
	return here
}

// stat returns the attributes of a place on the disk, and whether it exists.
func (c *instance) stat(here place) (nodefs.Info, bool) {
	disk := c.runtime.cfg.FS
	if !here.top {
		info, err := disk.Stat(here.node)
		return info, err == nil
	}
	info, err := disk.StatWithin(here.node, "") // the source of a mount may be a link
	if errors.Is(err, syscall.ENOTDIR) {        // or a file
		info, err = disk.Stat(here.node)
	}
	return info, err == nil
}

// implyDir makes a missing place a directory if something is mounted below it.
func (c *instance) implyDir(here *place) {
	if len(c.mountedIn(here.path)) > 0 {
		here.exists, here.info = true, nodefs.Info{Mode: fs.ModeDir | 0o755}
	}
}

// mountedIn returns the names, in a directory, on the way to mounts and devices.
func (c *instance) mountedIn(dir string) []string {
	var names []string
	add := func(name string) {
		if rest, ok := below(dir, name); ok && rest != "" {
			first, _, _ := strings.Cut(rest, "/")
			names = append(names, first)
		}
	}
	for _, m := range c.spec.Mounts {
		add(m.Path)
	}
	for _, d := range c.spec.Devices {
		add(d.Path)
	}
	return names
}

// below returns the rest of a path in a directory; "" for the directory itself.
func below(dir, name string) (rest string, ok bool) {
	if dir == name {
		return "", true
	}
	return strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// readDir returns the sorted names in a directory, with the mounts in it.
func (c *instance) readDir(here place) ([]string, error) {
	if !here.exists {
		return nil, fs.ErrNotExist
	}
	if !here.isDir() {
		return nil, syscall.ENOTDIR
	}
	var names []string
	if here.virtual != nil {
		names = slices.Clone(here.virtual.names)
	} else if here.node != "" {
		var err error
		if names, err = c.runtime.cfg.FS.ReadDir(here.node); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	names = append(names, c.mountedIn(here.path)...)
	if here.path == "/" {
		names = append(names, virtualTops...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// errorText returns the kernel's text for an error of an access.
func errorText(err error) string {
	for _, row := range errorTexts {
		if errors.Is(err, row.err) {
			return row.text
		}
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		return strings.ToUpper(number.Error()[:1]) + number.Error()[1:]
	}
	return err.Error()
}

// errNotSupported is the error of an access that the node's disk cannot make.
var errNotSupported = errors.ErrUnsupported

var errorTexts = []struct {
	err  error
	text string
}{
	{nodefs.ErrReadOnly, "Read-only file system"},
	{syscall.EROFS, "Read-only file system"},
	{nodefs.ErrNotEmpty, "Directory not empty"},
	{syscall.ENOTEMPTY, "Directory not empty"},
	{nodefs.ErrMounted, "Device or resource busy"},
	{nodefs.ErrBusy, "Device or resource busy"},
	{syscall.ENOSPC, "No space left on device"},
	{syscall.ENOTDIR, "Not a directory"},
	{syscall.EISDIR, "Is a directory"},
	{syscall.EXDEV, "Invalid cross-device link"},
	{syscall.ELOOP, "Too many levels of symbolic links"},
	{syscall.EINVAL, "Invalid argument"},
	{syscall.EIO, "Input/output error"},
	{syscall.EDQUOT, "Disk quota exceeded"},
	{syscall.ENOTTY, "Inappropriate ioctl for device"},
	{fs.ErrExist, "File exists"},
	{fs.ErrNotExist, "No such file or directory"},
	{fs.ErrPermission, "Permission denied"},
	{nodefs.ErrOutside, "No such file or directory"},
	{nodefs.ErrNotWithin, "No such file or directory"},
	{errNotSupported, "Operation not supported"},
}

// lowerFirst returns text with a lower-case first letter.
func lowerFirst(text string) string { return strings.ToLower(text[:1]) + text[1:] }

func containsSlash(name string) bool { return strings.Contains(name, "/") }

func trimSIG(name string) string { return strings.TrimPrefix(strings.ToUpper(name), "SIG") }
