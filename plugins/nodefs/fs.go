package nodefs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// The outcomes a caller tells apart with errors.Is, beside fs.ErrNotExist.
var (
	// ErrOutside says that a path is not inside the node's root, or that the
	// root itself was given where a path below it is needed.
	ErrOutside = errors.New("path is outside the node's root")
	// ErrMounted says that a path cannot be removed because it is a mount point.
	ErrMounted = errors.New("is a mount point")
	// ErrNotMounted says that nothing is mounted at a path.
	ErrNotMounted = errors.New("is not a mount point")
	// ErrBusy says that a mount is in use: another mount lies below it, or, on
	// a real node, a process holds a file of it.
	ErrBusy = errors.New("mount is busy")
	// ErrReadOnly says that a write met a read-only mount.
	ErrReadOnly = errors.New("read-only file system")
	// ErrNotEmpty says that a directory cannot be removed because it holds something.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrNotWithin says that a path leads out of the directory in which it must stay.
	ErrNotWithin = errors.New("path leads out of the directory")
)

// FS is the disk and the mount table of one node. Paths are absolute and
// inside the node's root; any other gives ErrOutside. All methods may be called
// concurrently.
type FS interface {
	// MkdirAll makes a directory and its missing parents, mode 0750. An
	// existing directory is no error.
	MkdirAll(path string) error
	// Remove removes a file or an empty directory. It gives ErrMounted for a
	// mount point, ErrNotEmpty for a directory that holds something and
	// fs.ErrNotExist for a missing path.
	Remove(path string) error
	// RemoveAll removes whatever is at path with all below it; a symbolic link
	// is removed, not what it points to. Nothing there is no error. Where
	// something is mounted at path or below it, it gives ErrMounted and removes
	// nothing; another error may leave a part. The root is ErrOutside.
	RemoveAll(path string) error
	// WriteFile replaces the content of a file, or makes it, at once: a reader
	// sees the old content or the new. The directory must exist.
	WriteFile(path string, data []byte) error
	// ReadFile returns the content of a file; fs.ErrNotExist if it is missing.
	ReadFile(path string) ([]byte, error)
	// ReadDir returns the sorted names in a directory; fs.ErrNotExist if it is missing.
	ReadDir(path string) ([]string, error)
	// Exists tells whether something is at path. Of a symbolic link it tells
	// whether something is where it leads to; see Stat.
	Exists(path string) (bool, error)
	// IsMountPoint tells whether something is mounted at exactly this path;
	// fs.ErrNotExist for a missing one.
	IsMountPoint(path string) (bool, error)
	// Mounts returns the mounts below the root, sorted by path; mounts stacked
	// on one path stand in the order in which they were made.
	Mounts() ([]Mount, error)
	// BindMount makes the directory source visible at the existing directory
	// target too, or the file or device node source at the existing file target;
	// one of each is syscall.ENOTDIR. A bind of a read-only mount is read-only
	// whatever is asked. Being read-only keeps nobody from writing to a device
	// through its node.
	BindMount(source, target string, readOnly bool) error
	// StatWithin, MkdirWithin and BindWithin are about what somebody else may change meanwhile. Inner is a path relative to
	// the directory base, "" or "." for base itself. Its symbolic links are followed, but not out of base: that gives
	// ErrNotWithin, or another error where a link came to be there after somebody has looked. What is missing gives
	// fs.ErrNotExist, also where a link leads to it.
	//
	// StatWithin tells of what inner leads to.
	StatWithin(base, inner string) (Info, error)
	// MkdirWithin makes the directory inner, and those missing on the way to it, with the permissions that Chmod sets.
	// What is there stays as it is; where it is no directory, the error is syscall.ENOTDIR.
	MkdirWithin(base, inner string, mode fs.FileMode) error
	// BindWithin makes what inner leads to visible at the existing target, as BindMount does. Where it is mounted there
	// already nothing is done; where something else is, it gives ErrMounted.
	BindWithin(base, inner, target string) error
	// Unmount takes the topmost mount off a path: ErrNotMounted if there is
	// none, ErrBusy if it is in use, fs.ErrNotExist for a missing path.
	Unmount(path string) error
	// Stat tells of what is at path: of a symbolic link itself, not of what it
	// leads to. fs.ErrNotExist if it is missing.
	Stat(path string) (Info, error)
	// Chown gives what is at path, a symbolic link itself, to a user and a
	// group; -1 leaves the one or the other as it is. Whoever sees the same file
	// or directory through another mount sees the same owner.
	Chown(path string, uid, gid int) error
	// Chmod sets the permissions of what is at path, with fs.ModeSetuid,
	// fs.ModeSetgid and fs.ModeSticky. A symbolic link has none of its own:
	// errors.ErrUnsupported.
	Chmod(path string, mode fs.FileMode) error
	// Symlink makes a symbolic link at path, fs.ErrExist if something is there.
	// Target may be any text, and leave the root: making and reading a link
	// touches nothing else. It is who follows such a link, or a broken one, that
	// is refused with ErrOutside.
	Symlink(target, path string) error
	// Readlink returns the target of the symbolic link at path, as it was made;
	// syscall.EINVAL for anything else.
	Readlink(path string) (target string, err error)
	// LockDevice keeps the file or device node at path from going away, by a
	// loop device over it that is returned: as long as it is locked, its mount is
	// busy. Doing it again returns the same loop device. A lock does not outlive
	// a reboot; a crash of the process it does.
	LockDevice(path string) (loop string, err error)
	// DeviceLock returns the loop device that locks what is at path;
	// fs.ErrNotExist if there is none, or nothing at path.
	DeviceLock(path string) (loop string, err error)
	// UnlockDevice undoes LockDevice. No lock, or nothing at path, is no error.
	UnlockDevice(path string) error
}

// Info is what Stat tells.
type Info struct {
	// Mode is the kind and the permissions. What MkdirAll makes has 0750, what
	// WriteFile makes 0640, and belongs to the owner of the process (in Memory to
	// root), but to its directory's group if that has fs.ModeSetgid.
	Mode     fs.FileMode
	UID, GID int
	// Device tells, for a device node, which device it is of: two nodes with the
	// same Device are the same device. Else it is "".
	Device string
}

// Mount is one row of a node's mount table.
type Mount struct {
	// Path is the mount point, in the spelling of the node's root.
	Path string
	// Source is what is mounted: a device node, or the name given to
	// Memory.MountTree. A bind mount shows the source of what it binds.
	Source string
	// FSType is the kind of file system, such as ext4.
	FSType string
	// ReadOnly says that writes through this mount fail with ErrReadOnly.
	ReadOnly bool
}

// relative returns path as seen from root ("." for the root itself), or ErrOutside.
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
