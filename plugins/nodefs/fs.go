package nodefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// The errors that callers compare with errors.Is, besides fs.ErrNotExist.
var (
	// ErrOutside means that a path is not inside the node's root, or that the root itself was given
	// where a path below it is needed.
	ErrOutside = errors.New("path is outside the node's root")
	// ErrMounted means that a path cannot be removed because it is a mount point.
	ErrMounted = errors.New("is a mount point")
	// ErrNotMounted means that nothing is mounted at a path.
	ErrNotMounted = errors.New("is not a mount point")
	// ErrBusy means that a mount is in use: another mount lies below it or, on a real node, a
	// process has one of its files open.
	ErrBusy = errors.New("mount is busy")
	// ErrReadOnly means that a write reached a read-only mount.
	ErrReadOnly = errors.New("read-only file system")
	// ErrNotEmpty means that a directory cannot be removed because it is not empty.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrNotWithin means that a path leads out of the directory that it must stay in.
	ErrNotWithin = errors.New("path leads out of the directory")
)

// FS is the disk and the mount table of one node. Paths are absolute and inside the node's root;
// any other path returns ErrOutside. All methods may be called concurrently.
type FS interface {
	Files
	filler
	attributeSetter
	Mounter
	confined
	deviceLocker
	replacer
	ramDisk
	programs
	exportMounter
	formatter
	deviceIO
	overwriter
}

// Files reads and writes files and directories.
type Files interface {
	Reader
	Writer
}

// Reader reads files, directories and their attributes.
type Reader interface {
	// ReadFile returns the content of a file, or fs.ErrNotExist.
	ReadFile(path string) ([]byte, error)
	// ReadDir returns the sorted names in a directory, or fs.ErrNotExist.
	ReadDir(path string) ([]string, error)
	// Exists reports whether path exists. It follows symbolic links; see Stat.
	Exists(path string) (bool, error)
	// Stat returns the attributes of path, or fs.ErrNotExist. It does not follow a symbolic link at
	// path.
	Stat(path string) (Info, error)
	// Readlink returns the target of the symbolic link at path as it was created. For anything else
	// it returns syscall.EINVAL.
	Readlink(path string) (target string, err error)
}

// Writer creates, replaces and removes files, directories and links.
type Writer interface {
	// MkdirAll creates a directory and its missing parents with mode 0750. An existing directory is
	// not an error.
	MkdirAll(path string) error
	// WriteFile atomically creates a file or replaces its content: a reader sees the old content or
	// the new. The directory must exist.
	WriteFile(path string, data []byte) error
	// Symlink creates a symbolic link at path, or returns fs.ErrExist. Target may be any text and
	// may leave the root, because creating and reading a link does not follow it. Following a
	// broken link or one that leaves the root returns ErrOutside.
	Symlink(target, path string) error
	// Remove removes a file or an empty directory. It returns ErrMounted for a mount point,
	// ErrNotEmpty for a directory that is not empty and fs.ErrNotExist for a missing path.
	Remove(path string) error
	// RemoveAll removes path and everything below it. It removes a symbolic link, not its target. A
	// missing path is not an error. If something is mounted at path or below it, RemoveAll returns
	// ErrMounted and removes nothing. After any other error a part may remain. For the root it
	// returns ErrOutside.
	RemoveAll(path string) error
}

// filler fills file systems.
type filler interface {
	// WriteZeros creates a file of size zero bytes, or replaces one. It takes its space from the file
	// system, and as little time and memory as possible. The directory must exist. If there is too
	// little space, the error matches syscall.ENOSPC and the file has what there was; a Memory is never
	// full.
	WriteZeros(path string, size int64) error
}

// attributeSetter changes owners and modes.
type attributeSetter interface {
	// Chown sets the user and the group of path; -1 leaves that one unchanged. It does not follow a
	// symbolic link at path. The owner is the same through every mount of the file.
	Chown(path string, uid, gid int) error
	// Chmod sets the permissions of path, including fs.ModeSetuid, fs.ModeSetgid and fs.ModeSticky.
	// For a symbolic link, which has none, it returns errors.ErrUnsupported.
	Chmod(path string, mode fs.FileMode) error
}

// Mounter binds, unmounts and lists mounts.
type Mounter interface {
	// BindMount makes the directory source visible at the existing directory target, or the file or
	// device node source at the existing file target. A directory and a file do not match:
	// syscall.ENOTDIR. A bind of a read-only mount is always read-only. A read-only bind of a
	// device node does not prevent writes to the device.
	BindMount(source, target string, readOnly bool) error
	// Unmount removes the topmost mount at path. It returns ErrNotMounted if there is none, ErrBusy
	// if it is in use and fs.ErrNotExist for a missing path.
	Unmount(path string) error
	// IsMountPoint reports whether something is mounted at exactly this path. For a missing path it
	// returns fs.ErrNotExist.
	IsMountPoint(path string) (bool, error)
	// Mounts returns the mounts below the root, sorted by path. Mounts stacked on one path are in
	// the order in which they were made.
	Mounts() ([]Mount, error)
	// MountOptions returns the options of the mount that has a path, as in the kernel's table, such as
	// "rw,noatime". For a missing path it returns fs.ErrNotExist.
	MountOptions(path string) (string, error)
}

// confined acts on paths inside a directory whose content others may change concurrently. Inner is
// a path relative to the directory base; "" and "." are base itself. Symbolic links in inner are
// followed, but not out of base: that returns ErrNotWithin, or another error if a link appeared
// after the path was resolved. A missing element, or a link to one, returns fs.ErrNotExist.
type confined interface {
	// StatWithin returns the attributes of the target of inner.
	StatWithin(base, inner string) (Info, error)
	// MkdirWithin creates the directory inner and its missing parents with the permissions that
	// Chmod sets. An existing directory stays unchanged; anything else there returns
	// syscall.ENOTDIR.
	MkdirWithin(base, inner string, mode fs.FileMode) error
	// BindWithin makes the target of inner visible at the existing target, as BindMount does. If it
	// is mounted there already, nothing changes; if something else is, BindWithin returns
	// ErrMounted.
	BindWithin(base, inner, target string) error
}

// deviceLocker locks device nodes, so that their device is not detached while a pod uses it.
type deviceLocker interface {
	// LockDevice locks the file or device node at path by a loop device over it, which it returns.
	// While it is locked, its mount is busy. Locking again returns the same loop device. A lock
	// survives a crash of the process but not a reboot.
	LockDevice(path string) (loop string, err error)
	// DeviceLock returns the loop device that locks path. It returns fs.ErrNotExist if there is no
	// lock, or no such path.
	DeviceLock(path string) (loop string, err error)
	// UnlockDevice undoes LockDevice. A missing lock or path is not an error.
	UnlockDevice(path string) error
}

// replacer moves entries.
type replacer interface {
	// Rename moves the entry at from to the path to, in one step. A file or link at to is replaced,
	// and so is an empty directory by a directory; a reader sees the old entry or the new. It does
	// not follow a symbolic link at either path. A directory with content at to returns ErrNotEmpty,
	// a mount point at either path ErrMounted. Both paths must be on one mount: syscall.EXDEV.
	Rename(from, to string) error
}

// ramDisk mounts memory.
type ramDisk interface {
	// MountTmpfs mounts an empty file system in memory at the existing directory target. size is
	// its capacity in bytes; 0 means that of the kernel, half of the machine's memory. Its content
	// is lost when it is unmounted.
	MountTmpfs(target string, size int64) error
}

// exportMounter mounts directories of file servers.
type exportMounter interface {
	// MountExport mounts what an NFS server exports at the existing directory target. All nodes that
	// mount a directory see the same files.
	MountExport(export Export, target string) error
	// UnmountExport unmounts it, as Unmount does. If the server does not answer within the limit,
	// it unmounts by force.
	UnmountExport(target string, limit time.Duration) error
}

// formatter acts on block devices and their file systems. A device is given by the path of its node.
type formatter interface {
	// FormatAndMount mounts the file system on the device at the existing directory target. A
	// device without one is formatted first; any other is never formatted. An empty fsType means
	// ext4.
	FormatAndMount(ctx context.Context, device, target, fsType string, options []string) error
	// Grow grows the file system on the device, mounted at target, to the size of the device.
	Grow(ctx context.Context, device, target string) error
	// Wipe removes all content of the device, including its file system. It returns ErrBusy if the
	// device is mounted, or bound to another path below the root.
	Wipe(ctx context.Context, device string) error
	// Capacity returns the size in bytes of the device at path, or of the file system that has
	// path.
	Capacity(path string) (int64, error)
}

// Info holds the attributes of a file, as returned by Stat.
type Info struct {
	// Mode holds the type and the permissions. MkdirAll creates directories with 0750, WriteFile
	// files with 0640. They belong to the owner of the process (in Memory to root). Their group is
	// that of the directory if it has fs.ModeSetgid.
	Mode     fs.FileMode
	UID, GID int
	// Device identifies the device of a device node: nodes with the same Device are the same
	// device. It is "" for anything else.
	Device string
}

// Mount is one row of a node's mount table.
type Mount struct {
	// Path is the mount point, spelled as the node's root.
	Path string
	// Source is the device node, or the name given to Memory.MountTree. A bind mount has the source
	// of the mount that it binds.
	Source string
	// FSType is the type of the file system, such as ext4.
	FSType string
	// ReadOnly means that writes through this mount fail with ErrReadOnly.
	ReadOnly bool
}

// relative returns the path relative to root ("." for the root itself), or ErrOutside.
func relative(root, name string) (string, error) {
	if !path.IsAbs(name) || strings.Contains(name, "..") && slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("%q below %q: %w", name, root, ErrOutside)
	}
	clean := path.Clean(name)
	if clean == root {
		return ".", nil
	}
	rest, ok := strings.CutPrefix(clean, strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return "", fmt.Errorf("%q below %q: %w", name, root, ErrOutside)
	}
	return rest, nil
}

// sortMounts sorts by path and keeps the order of mounts stacked on one path.
func sortMounts(mounts []Mount) {
	slices.SortStableFunc(mounts, func(a, b Mount) int { return cmp.Compare(a.Path, b.Path) })
}
