//go:build amd64 || arm64

package process

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes of mounts.
const (
	plainMount    = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readOnlyMount = plainMount | unix.MOUNT_ATTR_RDONLY
)

// newFileSystem returns a new file system that is not mounted yet. Options are NAME=VALUE.
func newFileSystem(kind string, attributes int, options ...string) (tree int, err error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open file system %s: %w", kind, err)
	}
	defer unix.Close(fs)
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		if value == "" {
			err = unix.FsconfigSetFlag(fs, name)
		} else {
			err = unix.FsconfigSetString(fs, name, value)
		}
		if err != nil {
			return -1, fmt.Errorf("option %s of %s: %w", option, kind, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("create %s: %w", kind, err)
	}
	if tree, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes); err != nil {
		return -1, fmt.Errorf("mount %s: %w", kind, err)
	}
	return tree, nil
}

// cloneTree returns a copy of the mount at a path, which is not mounted yet, with all mounts below it. name "" is the
// directory itself.
func cloneTree(dir int, name string) (tree int, err error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE)
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	tree, err = unix.OpenTree(dir, name, flags)
	if err != nil {
		return -1, fmt.Errorf("clone mount %q: %w", name, err)
	}
	return tree, nil
}

// isolate sets attributes of a tree and all mounts below its root, and lets none of them receive or pass on
// later mounts.
func isolate(tree int, attributes uint64) error {
	err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: attributes, Propagation: unix.MS_PRIVATE,
	})
	if err != nil {
		return fmt.Errorf("set attributes of a mount: %w", err)
	}
	return nil
}

// attach mounts a tree at an open directory or file.
func attach(tree, at int) error {
	err := unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// attachAt mounts a tree at the entry of a directory, and closes neither.
func attachAt(tree, dir int, name string) error {
	err := unix.MoveMount(tree, "", dir, name, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("mount at %s: %w", name, err)
	}
	return nil
}

// inRoot opens a path below a root directory. Neither ".." nor a link leads out of it, and no link of
// /proc is followed.
func inRoot(root int, name string, flags uint64) (int, error) {
	return unix.Openat2(root, name, &unix.OpenHow{
		Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// makeDirectory opens a directory below a root directory, and makes what is missing of it.
func makeDirectory(root int, name string) (int, error) {
	dir, err := inRoot(root, "/", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	at := "/"
	for element := range strings.SplitSeq(strings.Trim(filepath.Clean(name), "/"), "/") {
		if element == "" || element == "." {
			continue
		}
		at = filepath.Join(at, element)
		next, err := inRoot(root, at, unix.O_PATH|unix.O_DIRECTORY)
		if err == unix.ENOENT {
			if err = unix.Mkdirat(dir, element, 0o755); err == nil || err == unix.EEXIST {
				next, err = inRoot(root, at, unix.O_PATH|unix.O_DIRECTORY)
			}
		}
		unix.Close(dir)
		if err != nil {
			return -1, fmt.Errorf("mkdir %s: %w", at, err)
		}
		dir = next
	}
	return dir, nil
}

// makeFile opens a file below a root directory, and makes it if it is missing.
func makeFile(root int, name string) (int, error) {
	file, err := inRoot(root, name, unix.O_PATH)
	if err != unix.ENOENT {
		return file, err
	}
	dir, err := makeDirectory(root, filepath.Dir(name))
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	created, err := unix.Openat(dir, filepath.Base(name), unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return -1, fmt.Errorf("create %s: %w", name, err)
	}
	unix.Close(created)
	return inRoot(root, name, unix.O_PATH)
}
