package nodefs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"syscall"
)

// Tree is the directory tree of one volume, kept in memory. Nodes write to it
// through a mount of a [Memory]; checkers read it here. All methods may be
// called concurrently, and one tree may be mounted on many nodes.
type Tree struct {
	mu   sync.Mutex
	root *node
}

// node is a directory when children is not nil, else a file.
type node struct {
	children map[string]*node
	data     []byte
}

// NewTree returns an empty tree.
func NewTree() *Tree { return &Tree{root: newDirectory()} }

func newDirectory() *node { return &node{children: map[string]*node{}} }

// Files returns the paths of all files, relative to the tree's root and sorted.
func (t *Tree) Files() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var files []string
	t.root.each(".", func(name string, n *node) {
		if !n.isDirectory() {
			files = append(files, name)
		}
	})
	slices.Sort(files)
	return files
}

// Hash returns the SHA-256, in hex, of everything in the tree: directories,
// names and contents. Equal trees have equal hashes, however they came to be.
func (t *Tree) Hash() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := sha256.New()
	t.root.each(".", func(name string, n *node) { n.hashInto(sum, name) })
	return hex.EncodeToString(sum.Sum(nil))
}

// SizeBytes returns the sum of the sizes of all files.
func (t *Tree) SizeBytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var size int64
	t.root.each(".", func(_ string, n *node) { size += int64(len(n.data)) })
	return size
}

func (n *node) isDirectory() bool { return n.children != nil }

// each visits everything below n, names in order, directories before their content.
func (n *node) each(at string, visit func(name string, n *node)) {
	for _, name := range n.names() {
		child := n.children[name]
		visit(path.Join(at, name), child)
		child.each(path.Join(at, name), visit)
	}
}

func (n *node) names() []string { return slices.Sorted(maps.Keys(n.children)) }

// hashInto writes one entry with its lengths, so that no two trees read alike.
func (n *node) hashInto(sum hash.Hash, name string) {
	kind := "file"
	if n.isDirectory() {
		kind = "directory"
	}
	fmt.Fprintf(sum, "%s %d %s %d ", kind, len(name), name, len(n.data))
	sum.Write(n.data)
}

// find walks the elements down from n.
func (n *node) find(elements []string) (*node, error) {
	for _, element := range elements {
		if !n.isDirectory() {
			return nil, syscall.ENOTDIR
		}
		child := n.children[element]
		if child == nil {
			return nil, fs.ErrNotExist
		}
		n = child
	}
	return n, nil
}

// makeAll makes the directories that elements name, as far as they are missing.
func (n *node) makeAll(elements []string) error {
	for _, element := range elements {
		if !n.isDirectory() {
			return syscall.ENOTDIR
		}
		if n.children[element] == nil {
			n.children[element] = newDirectory()
		}
		n = n.children[element]
	}
	if !n.isDirectory() {
		return syscall.ENOTDIR
	}
	return nil
}

// write replaces or makes the file that elements name.
func (n *node) write(elements []string, data []byte) error {
	if len(elements) == 0 {
		return syscall.EISDIR
	}
	directory, name, err := n.parent(elements)
	if err != nil {
		return err
	}
	if old := directory.children[name]; old != nil && old.isDirectory() {
		return syscall.EISDIR
	}
	directory.children[name] = &node{data: slices.Clone(data)}
	return nil
}

// remove removes the file or empty directory that elements name.
func (n *node) remove(elements []string) error {
	directory, name, err := n.parent(elements)
	if err != nil {
		return err
	}
	switch child := directory.children[name]; {
	case child == nil:
		return fs.ErrNotExist
	case len(child.children) > 0:
		return ErrNotEmpty
	}
	delete(directory.children, name)
	return nil
}

// removeAll removes whatever elements name, with all below it.
func (n *node) removeAll(elements []string) error {
	directory, name, err := n.parent(elements)
	if err != nil {
		return err
	}
	delete(directory.children, name)
	return nil
}

// parent returns the directory that holds the last of elements, and its name there.
func (n *node) parent(elements []string) (*node, string, error) {
	last := len(elements) - 1
	directory, err := n.find(elements[:last])
	if err != nil {
		return nil, "", err
	}
	if !directory.isDirectory() {
		return nil, "", syscall.ENOTDIR
	}
	return directory, elements[last], nil
}
