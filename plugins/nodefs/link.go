package nodefs

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// linksMax bounds the symbolic links on one path, as the kernel does.
const linksMax = 40

// Symlink implements FS.
func (r *Real) Symlink(target, name string) error {
	place, err := r.resolveEntry(name)
	if err != nil {
		return err
	}
	return classify(os.Symlink(target, place))
}

// Readlink implements FS.
func (r *Real) Readlink(name string) (string, error) {
	place, err := r.resolveEntry(name)
	if err != nil {
		return "", err
	}
	return os.Readlink(place)
}

// Symlink implements FS.
func (m *Memory) Symlink(target, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locateEntry(name)
	if err != nil {
		return err
	}
	if here.path == m.root {
		return pathError("symlink", name, ErrOutside)
	}
	if here.rest == "" {
		return pathError("symlink", name, syscall.EEXIST)
	}
	here.mount.tree.hasLinks.Store(true)
	return here.change("symlink", name, func(top *node) error { return top.symlink(here.elements(), target) })
}

// Readlink implements FS.
func (m *Memory) Readlink(name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locateEntry(name)
	if err != nil {
		return "", err
	}
	var target string
	err = here.read("readlink", name, func(n *node) error {
		if n.link == "" {
			return syscall.EINVAL
		}
		target = n.link
		return nil
	})
	return target, err
}

// locate returns the location of name, which need not exist. It follows symbolic links, including
// the last element, and crosses mounts. The caller holds m.mu.
func (m *Memory) locate(name string) (location, error) { return m.locateBy(name, true) }

// locateEntry works like locate for calls that act on a directory entry: a symbolic link at name is
// not followed.
func (m *Memory) locateEntry(name string) (location, error) { return m.locateBy(name, false) }

func (m *Memory) locateBy(name string, followLast bool) (location, error) {
	rest, err := relative(m.root, name)
	if err != nil {
		return location{}, err
	}
	here, linked := m.walk(path.Clean(name), rest)
	if !linked {
		return here, nil // no tree on the path has links
	}
	elements, err := m.enter(nil, strings.Split(rest, "/"), followLast, 0)
	if err != nil {
		return location{}, fmt.Errorf("%q: %w", name, err)
	}
	here, _ = m.walkTo(elements)
	return here, nil
}

// walkTo works like walk for elements below the root.
func (m *Memory) walkTo(elements []string) (location, bool) {
	rest := path.Join(elements...)
	if rest == "" {
		rest = "."
	}
	return m.walk(path.Join(m.root, rest), rest)
}

// walk returns the location of the path full, which ends in rest, and whether a tree on the path
// has symbolic links. It crosses mounts but follows no links. The caller holds m.mu.
func (m *Memory) walk(full, rest string) (here location, linked bool) {
	here = location{mount: m.disk, path: full}
	linked = m.disk.tree.hasLinks.Load()
	if rest == "." {
		return here, linked
	}
	here.rest = rest
	depth := strings.Count(full, "/") - strings.Count(rest, "/") - 1
	for below := rest; below != ""; {
		_, below, _ = strings.Cut(below, "/")
		depth++
		prefix := strings.TrimSuffix(full[:len(full)-len(below)], "/")
		for next := m.mountOn(here.mount, prefix, depth); next != nil; next = m.mountOn(next, prefix, depth) {
			here.mount, here.rest = next, below
			linked = linked || next.tree.hasLinks.Load()
		}
	}
	return here, linked
}

// enter returns the elements reached from at, a path without links. A missing element keeps its
// name. A link that leads to a missing element is broken, and refused. hops counts the links
// followed so far.
func (m *Memory) enter(at, elements []string, followLast bool, hops int) ([]string, error) {
	for i, element := range elements {
		if element == "." || element == "" {
			continue
		}
		if element == ".." {
			if len(at) == 0 {
				return nil, ErrOutside
			}
			at = at[:len(at)-1]
			continue
		}
		next := append(slices.Clip(at), element)
		here, _ := m.walkTo(next)
		found, err := here.find()
		switch {
		case err != nil && hops == 0:
			return slices.Concat(next, elements[i+1:]), nil
		case err != nil:
			return nil, fmt.Errorf("broken link: %w: %w", ErrOutside, err)
		case found.link == "" || i == len(elements)-1 && !followLast:
			at = next
		default:
			if at, err = m.follow(at, found.link, hops+1); err != nil {
				return nil, err
			}
		}
	}
	return at, nil
}

// follow returns the elements that a link in the directory at leads to.
func (m *Memory) follow(at []string, target string, hops int) ([]string, error) {
	if hops > linksMax {
		return nil, fmt.Errorf("%w: %w", ErrOutside, syscall.ELOOP)
	}
	if path.IsAbs(target) {
		rest, err := relative(m.root, path.Clean(target))
		if err != nil {
			return nil, err
		}
		at, target = nil, rest
	}
	return m.enter(at, strings.Split(target, "/"), true, hops)
}
