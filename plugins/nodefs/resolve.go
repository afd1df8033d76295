package nodefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// resolve returns the path of name on the machine, with symbolic links followed, or ErrOutside. A
// missing element keeps its name. A broken link is refused, since a write through it could land
// anywhere.
func (r *Real) resolve(name string) (string, error) {
	rest, err := relative(r.root, name)
	if err != nil {
		return "", err
	}
	place := r.resolved
	if rest == "." {
		return place, nil
	}
	elements := strings.Split(rest, "/")
	for i, element := range elements {
		next := filepath.Join(place, element)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return filepath.Join(place, filepath.Join(elements[i:]...)), nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if next, err = r.follow(name, next); err != nil {
				return "", err
			}
		}
		place = next
	}
	return place, nil
}

// follow resolves a symbolic link that must stay inside the root.
func (r *Real) follow(name, link string) (string, error) {
	place, err := filepath.EvalSymlinks(link)
	if err != nil {
		return "", fmt.Errorf("%q uses the broken link %s: %w: %w", name, link, ErrOutside, err)
	}
	if place != r.resolved && !strings.HasPrefix(place, r.resolved+"/") {
		return "", fmt.Errorf("%q leads to %s: %w", name, place, ErrOutside)
	}
	return place, nil
}

// resolveEntry resolves the directory of name but not name itself, for calls that act on a
// directory entry. It returns ErrOutside for the root.
func (r *Real) resolveEntry(name string) (string, error) {
	rest, err := relative(r.root, name)
	if err != nil {
		return "", err
	}
	if rest == "." {
		return "", fmt.Errorf("%q: %w", name, ErrOutside)
	}
	directory, err := r.resolve(filepath.Dir(filepath.Join(r.root, rest)))
	if err != nil {
		return "", err
	}
	return filepath.Join(directory, filepath.Base(rest)), nil
}

// resolveSelf works like resolveEntry for calls that act on the entry at name, including a symbolic
// link. It accepts the root.
func (r *Real) resolveSelf(name string) (string, error) {
	if rest, err := relative(r.root, name); err == nil && rest == "." {
		return r.resolved, nil
	}
	return r.resolveEntry(name)
}

// resolveExisting resolves an existing path and reports whether it is a directory.
func (r *Real) resolveExisting(name string) (place string, isDirectory bool, err error) {
	place, err = r.resolve(name)
	if err != nil {
		return "", false, err
	}
	info, err := os.Stat(place)
	if err != nil {
		return "", false, err
	}
	return place, info.IsDir(), nil
}

// resolveMountTarget resolves an existing mount target below the root: a directory, or a file for
// anything else.
func (r *Real) resolveMountTarget(name string, directory bool) (string, error) {
	place, isDirectory, err := r.resolveExisting(name)
	switch {
	case err != nil:
	case isDirectory != directory:
		err = pathError("mount", name, syscall.ENOTDIR)
	case place == r.resolved:
		err = pathError("mount", name, ErrOutside)
	}
	return place, err
}
