package nodefs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

var _ FS = (*Memory)(nil)

// memoryFSType is the file system type that Mounts reports.
const memoryFSType = "memory"

// Memory is a node's disk kept in memory. It is deterministic and starts no goroutine. All methods
// may be called concurrently. Create one with [NewMemory].
type Memory struct {
	root string

	// mu guards the fields below. It is locked before the mutex of any tree.
	mu sync.Mutex
	// disk is the node's own file system, mounted at the root; never nil.
	disk *mount
	// mounts holds each mount under its parent and path, as the kernel does. A mount hides what its
	// parent has at that path. A second mount on the same path has the first as its parent.
	mounts     map[mountKey]*mount
	mountsMade int // number of mounts ever made; orders stacked mounts
	// devices holds the device nodes by name; nil: none. A reboot removes them.
	devices *Tree
	locks   []deviceLock
	// contents holds what is on the devices, by name.
	contents map[string]*deviceContent
}

type mountKey struct {
	parent *mount
	path   string
}

type mount struct {
	key      mountKey
	tree     *Tree
	at       *node // the visible directory of tree; guarded by tree.mu
	source   string
	fsType   string
	readOnly bool
	number   int
	below    int // number of mounts on it; guarded by Memory.mu
	// belowByDepth counts those mounts by the depth of their path; guarded by Memory.mu. A walk
	// looks for mounts only at depths that have any.
	belowByDepth []int
}

// location is a place in the file system: elements below the top of a mount.
type location struct {
	mount *mount
	rest  string // the path below the top of the mount; "": the top
	path  string // the whole path, without symbolic links
}

// elements returns the names on the path below the top of the mount.
func (s location) elements() []string {
	if s.rest == "" {
		return nil
	}
	return strings.Split(s.rest, "/")
}

// NewMemory returns an empty disk below root, an absolute path. The root directory exists. "/" is
// allowed. NewMemory panics if root is not absolute.
func NewMemory(root string) *Memory {
	if !path.IsAbs(root) {
		panic(fmt.Sprintf("nodefs: root %q is not absolute", root))
	}
	tree := NewTree()
	return &Memory{
		root: path.Clean(root),
		disk: &mount{tree: tree, at: tree.root, source: "node-disk", fsType: memoryFSType},
	}
}

// Reset simulates a reboot of the node. The mount table is empty, no device is locked and device
// nodes are new. The node's own files stay, and so does what is on its devices.
func (m *Memory) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mounts, m.locks, m.devices = nil, nil, nil
	m.disk.below, m.disk.belowByDepth = 0, nil
}

// MountTree makes the whole of tree visible at the existing directory name. Mounts reports source
// for it and for its binds.
func (m *Memory) MountTree(tree *Tree, source, name string, readOnly bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attach(name, &mount{tree: tree, at: tree.root, source: source, fsType: memoryFSType, readOnly: readOnly})
}

// BindMount implements FS.
func (m *Memory) BindMount(source, target string, readOnly bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, err := m.locate(source)
	if err != nil {
		return err
	}
	at, err := from.find()
	if err != nil {
		return pathError("bind", source, err)
	}
	return m.attach(target, &mount{
		tree: from.mount.tree, at: at, source: from.mount.source, fsType: from.mount.fsType,
		readOnly: readOnly || from.mount.readOnly,
	})
}

// Unmount implements FS.
func (m *Memory) Unmount(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.existing(name)
	if err != nil {
		return err
	}
	if !here.isMountPoint() {
		return pathError("unmount", name, ErrNotMounted)
	}
	if here.mount.below > 0 {
		return pathError("unmount", name, ErrBusy)
	}
	if m.isLocked(here.mount) {
		return pathError("unmount", name, ErrBusy)
	}
	here.mount.key.parent.countMount(here.mount, -1)
	delete(m.mounts, here.mount.key)
	return nil
}

// Mounts implements FS.
func (m *Memory) Mounts() ([]Mount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*mount
	for _, each := range m.mounts {
		all = append(all, each)
	}
	slices.SortFunc(all, func(a, b *mount) int { return cmp.Compare(a.number, b.number) })
	rows := make([]Mount, len(all))
	for i, each := range all {
		rows[i] = each.row()
	}
	sortMounts(rows)
	return rows, nil
}

// countMount records a mount made on m, or, with n = -1, one removed.
func (m *mount) countMount(on *mount, n int) {
	depth := strings.Count(on.key.path, "/")
	if missing := depth + 1 - len(m.belowByDepth); missing > 0 {
		m.belowByDepth = append(m.belowByDepth, make([]int, missing)...)
	}
	m.below += n
	m.belowByDepth[depth] += n
}

// mountOn returns the mount made on below at a path of the given depth, or nil. The caller holds
// mu.
func (m *Memory) mountOn(below *mount, path string, depth int) *mount {
	if depth >= len(below.belowByDepth) || below.belowByDepth[depth] == 0 {
		return nil
	}
	return m.mounts[mountKey{below, path}]
}

func (m *mount) row() Mount {
	return Mount{Path: m.key.path, Source: m.source, FSType: m.fsType, ReadOnly: m.readOnly}
}

// MountAt returns the topmost mount made at exactly this path. It reports false if nothing is
// mounted there, and fs.ErrNotExist for a missing path.
func (m *Memory) MountAt(name string) (Mount, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.existing(name)
	if err != nil || !here.isMountPoint() {
		return Mount{}, false, err
	}
	return here.mount.row(), true, nil
}

// IsMountPoint implements FS.
func (m *Memory) IsMountPoint(name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.existing(name)
	if err != nil {
		return false, err
	}
	return here.isMountPoint(), nil
}

// MkdirAll implements FS.
func (m *Memory) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locate(name)
	if err != nil {
		return err
	}
	if found, err := here.find(); err == nil && found.isDirectory() {
		return nil
	}
	return here.change("mkdir", name, func(top *node) error { return top.makeAll(here.elements()) })
}

// WriteFile implements FS.
func (m *Memory) WriteFile(name string, data []byte) error {
	return m.writeEntry(name, func(top *node, elements []string) error { return top.write(elements, data) })
}

// WriteZeros implements FS. The file takes no memory, but it counts in Tree.SizeBytes.
func (m *Memory) WriteZeros(name string, size int64) error {
	if size < 0 {
		return pathError("write", name, syscall.EINVAL)
	}
	return m.writeEntry(name, func(top *node, elements []string) error {
		return top.replace(elements, &node{zeros: size, mode: fileMode})
	})
}

// writeEntry writes a file, unless a file is mounted there.
func (m *Memory) writeEntry(name string, write func(top *node, elements []string) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locateEntry(name)
	if err != nil {
		return err
	}
	if here.rest == "" && here.mount != m.disk {
		if found, err := here.find(); err == nil && !found.isDirectory() {
			return pathError("write", name, ErrMounted)
		}
	}
	return here.change("write", name, func(top *node) error { return write(top, here.elements()) })
}

// Remove implements FS.
func (m *Memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locateEntry(name)
	if err != nil {
		return err
	}
	if here.rest == "" {
		if here.mount == m.disk {
			return pathError("remove", name, ErrOutside)
		}
		return pathError("remove", name, ErrMounted)
	}
	return here.change("remove", name, func(top *node) error { return top.remove(here.elements()) })
}

// RemoveAll implements FS.
func (m *Memory) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locateEntry(name)
	if err != nil {
		return err
	}
	if here.rest == "" && here.mount == m.disk {
		return pathError("remove", name, ErrOutside)
	}
	if m.mountedIn(here.path) {
		return pathError("remove", name, ErrMounted)
	}
	err = here.change("remove", name, func(top *node) error { return top.removeAll(here.elements()) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadFile implements FS.
func (m *Memory) ReadFile(name string) ([]byte, error) {
	var data []byte
	err := m.read("read", name, func(n *node) error {
		switch {
		case n.isDirectory():
			return syscall.EISDIR
		case n.device != "":
			return errors.ErrUnsupported
		}
		data = append(make([]byte, n.zeros), n.data...)
		return nil
	})
	return data, err
}

// ReadDir implements FS.
func (m *Memory) ReadDir(name string) ([]string, error) {
	var names []string
	err := m.read("readdir", name, func(n *node) error {
		if !n.isDirectory() {
			return syscall.ENOTDIR
		}
		names = n.names()
		return nil
	})
	return names, err
}

// Exists implements FS.
func (m *Memory) Exists(name string) (bool, error) {
	err := m.read("stat", name, func(*node) error { return nil })
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// read calls use with the node at name, under all locks. It follows symbolic links.
func (m *Memory) read(operation, name string, use func(*node) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locate(name)
	if err != nil {
		return err
	}
	return here.read(operation, name, use)
}

// read calls use with the node at s, under the tree's lock.
func (s location) read(operation, name string, use func(*node) error) error {
	s.mount.tree.mu.Lock()
	defer s.mount.tree.mu.Unlock()
	found, err := s.mount.at.findPath(s.rest)
	if err == nil {
		err = use(found)
	}
	return pathError(operation, name, err)
}

// attach adds a mount at the existing name: a directory on a directory, anything else on a file.
// The caller holds m.mu.
func (m *Memory) attach(name string, added *mount) error {
	here, err := m.locate(name)
	if err != nil {
		return err
	}
	if here.mount == m.disk && here.rest == "" {
		return pathError("mount", name, ErrOutside)
	}
	below, err := here.find()
	if err == nil && below.isDirectory() != added.at.isDirectory() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("mount", name, err)
	}
	m.mountsMade++
	added.number = m.mountsMade
	added.key = mountKey{parent: here.mount, path: here.path}
	if m.mounts == nil {
		m.mounts = map[mountKey]*mount{}
	}
	m.mounts[added.key] = added
	here.mount.countMount(added, 1)
	return nil
}

// existing works like locate for a path that must exist.
func (m *Memory) existing(name string) (location, error) {
	here, err := m.locate(name)
	if err != nil {
		return location{}, err
	}
	_, err = here.find()
	return here, pathError("stat", name, err)
}

// isMountPoint reports whether s is the top of a mount other than the root.
func (s location) isMountPoint() bool { return s.rest == "" && s.mount.key.parent != nil }

// find returns the node at s.
func (s location) find() (*node, error) {
	s.mount.tree.mu.Lock()
	defer s.mount.tree.mu.Unlock()
	return s.mount.at.findPath(s.rest)
}

// change calls apply with the top of s's mount, unless the mount is read-only.
func (s location) change(operation, name string, apply func(top *node) error) error {
	if s.mount.readOnly {
		return pathError(operation, name, ErrReadOnly)
	}
	s.mount.tree.mu.Lock()
	defer s.mount.tree.mu.Unlock()
	return pathError(operation, name, apply(s.mount.at))
}

// pathError wraps err with the operation and the path. A nil error stays nil.
func pathError(operation, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: operation, Path: name, Err: err}
}
