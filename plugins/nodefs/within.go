package nodefs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// innerElements returns the elements of a path that must stay in a directory; none for the
// directory itself.
func innerElements(inner string) ([]string, error) {
	var elements []string
	if path.IsAbs(inner) {
		return nil, pathError("enter", inner, ErrNotWithin)
	}
	for element := range strings.SplitSeq(inner, "/") {
		switch element {
		case "", ".":
		case "..":
			return nil, pathError("enter", inner, ErrNotWithin)
		default:
			elements = append(elements, element)
		}
	}
	return elements, nil
}

// StatWithin implements FS.
func (m *Memory) StatWithin(base, inner string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locateWithin(base, inner)
	if err != nil {
		return Info{}, err
	}
	var info Info
	err = here.read("stat", inner, func(n *node) error {
		info = n.info()
		return nil
	})
	return info, err
}

// MkdirWithin implements FS.
func (m *Memory) MkdirWithin(base, inner string, mode fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, missing, err := m.walkWithin(base, inner)
	if err != nil {
		return err
	}
	here, _ := m.walkTo(at)
	if len(missing) == 0 {
		return here.read("mkdir", inner, func(n *node) error {
			if !n.isDirectory() {
				return syscall.ENOTDIR
			}
			return nil
		})
	}
	return here.change("mkdir", inner, func(top *node) error {
		n, err := top.findPath(here.rest)
		if err == nil && !n.isDirectory() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return err
		}
		for _, element := range missing {
			made := newDirectory()
			n.add(element, made)
			made.mode = mode & attributeBits
			n = made
		}
		return nil
	})
}

// BindWithin implements FS.
func (m *Memory) BindWithin(base, inner, target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, err := m.locateWithin(base, inner)
	if err != nil {
		return err
	}
	at, err := from.find()
	if err != nil {
		return pathError("bind", inner, err)
	}
	mounted, err := m.existing(target)
	if err != nil {
		return err
	}
	if mounted.isMountPoint() {
		if mounted.mount.tree == from.mount.tree && mounted.mount.at == at {
			return nil
		}
		return pathError("bind", target, ErrMounted)
	}
	return m.attach(target, &mount{
		tree: from.mount.tree, at: at, source: from.mount.source, fsType: from.mount.fsType,
		readOnly: from.mount.readOnly,
	})
}

// locateWithin returns the location of inner below base. The caller holds m.mu.
func (m *Memory) locateWithin(base, inner string) (location, error) {
	at, missing, err := m.walkWithin(base, inner)
	if err == nil && len(missing) > 0 {
		err = pathError("enter", inner, fs.ErrNotExist)
	}
	if err != nil {
		return location{}, err
	}
	here, _ := m.walkTo(at)
	return here, nil
}

// walkWithin follows inner as far as it exists. It returns the elements reached below the root,
// without links, and the missing ones. The caller holds m.mu.
func (m *Memory) walkWithin(base, inner string) (at, missing []string, err error) {
	rest, err := relative(m.root, base)
	if err != nil {
		return nil, nil, err
	}
	elements, err := innerElements(inner)
	if err != nil {
		return nil, nil, err
	}
	top, err := m.enter(nil, strings.Split(rest, "/"), true, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%q: %w", base, err)
	}
	at = top
	for i, element := range elements {
		next := append(slices.Clip(at), element)
		here, _ := m.walkTo(next)
		found, err := here.find()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = elements[i:]
		case err != nil:
			return nil, nil, pathError("enter", inner, err)
		case found.link != "":
			at, err = m.follow(at, found.link, 1)
			if err != nil {
				return nil, nil, pathError("enter", inner, linkError(err))
			}
		default:
			at = next
		}
		if missing != nil {
			break
		}
	}
	if len(at) < len(top) || !slices.Equal(at[:len(top)], top) {
		return nil, nil, pathError("enter", inner, ErrNotWithin)
	}
	return at, missing, nil
}

// linkError returns the reason why a link inside a directory was not followed.
func linkError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fs.ErrNotExist
	case errors.Is(err, syscall.ELOOP):
		return syscall.ELOOP
	default:
		return fmt.Errorf("%w: %w", ErrNotWithin, err)
	}
}
