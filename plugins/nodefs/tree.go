package nodefs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Tree is the directory tree of one volume, kept in memory. Nodes write to it through a mount of a
// [Memory]; checkers read it here. All methods may be called concurrently, and one tree may be
// mounted on many nodes.
type Tree struct {
	mu   sync.Mutex
	root *node
	// hasLinks is set once a symbolic link was made in the tree. Without one a walk need not look
	// for links.
	hasLinks atomic.Bool
	// capacity is what Capacity returns; 0: memoryCapacity.
	capacity atomic.Int64
	pages    map[int64]page // of a block device whose bytes the tree has, by number; see SetDeviceBytes
}

// The modes of new entries.
const (
	directoryMode = fs.FileMode(0o750)
	fileMode      = fs.FileMode(0o640)
	linkMode      = fs.FileMode(0o777)
)

// node is a directory if directory is set, a symbolic link if link is not "", a device node if
// device is not "", and a file otherwise.
type node struct {
	directory bool
	children  map[string]*node // nil: none
	data      []byte
	zeros     int64 // size of a file of zeros, which has no data
	link      string
	device    string
	program   program     // nil: the file cannot be executed
	mode      fs.FileMode // only attributeBits
	uid, gid  int
}

// NewTree returns an empty tree.
func NewTree() *Tree { return &Tree{root: newDirectory()} }

func newDirectory() *node { return &node{directory: true, mode: directoryMode} }

// Files returns the sorted paths of all files and links, relative to the tree's root.
func (t *Tree) Files() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var files []string
	t.root.visitAll(".", func(name string, n *node) {
		if !n.isDirectory() {
			files = append(files, name)
		}
	})
	slices.Sort(files)
	return files
}

// Owners returns the owner and mode of every entry by its path relative to the root, which is ".".
func (t *Tree) Owners() map[string]Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	owners := map[string]Info{".": t.root.info()}
	t.root.visitAll(".", func(name string, n *node) { owners[name] = n.info() })
	return owners
}

// Hash returns the SHA-256, in hex, of the tree's content: directories, names, file contents and
// link targets. Owners and modes are excluded. Equal trees have equal hashes, whatever their
// history. A file of WriteZeros is hashed by its size; it differs from one with the same content.
func (t *Tree) Hash() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := sha256.New()
	t.root.visitAll(".", func(name string, n *node) { n.hashInto(sum, name) })
	t.hashPages(sum)
	return hex.EncodeToString(sum.Sum(nil))
}

// SizeBytes returns the sum of the sizes of all files.
func (t *Tree) SizeBytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var size int64
	t.root.visitAll(".", func(_ string, n *node) { size += int64(len(n.data)) + n.zeros })
	return size
}

func (n *node) info() Info {
	return Info{Mode: n.kind() | n.mode, UID: n.uid, GID: n.gid, Device: n.device}
}

func (n *node) isDirectory() bool { return n.directory }

// kind returns the type bits of n's mode.
func (n *node) kind() fs.FileMode {
	switch {
	case n.isDirectory():
		return fs.ModeDir
	case n.link != "":
		return fs.ModeSymlink
	case n.device != "":
		return fs.ModeDevice
	}
	return 0
}

// add adds a new child to the directory n.
func (n *node) add(name string, child *node) {
	if n.mode&fs.ModeSetgid != 0 {
		child.gid = n.gid
		if child.isDirectory() {
			child.mode |= fs.ModeSetgid
		}
	}
	n.put(name, child)
}

// put makes child the entry of that name in the directory n.
func (n *node) put(name string, child *node) {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	n.children[name] = child
}

// visitAll visits everything below n in the order of names, directories before their content.
func (n *node) visitAll(at string, visit func(name string, n *node)) {
	for _, name := range n.names() {
		child := n.children[name]
		visit(path.Join(at, name), child)
		child.visitAll(path.Join(at, name), visit)
	}
}

// names returns the names of the entries of a directory, sorted; nil if it is empty.
func (n *node) names() []string {
	if len(n.children) == 0 {
		return nil
	}
	names := make([]string, 0, len(n.children))
	for name := range n.children {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// hashInto writes one entry with its lengths, so that different trees never yield the same bytes.
func (n *node) hashInto(sum hash.Hash, name string) {
	kind, data := "file", n.data
	switch {
	case n.zeros > 0:
		kind, data = "zeros", strconv.AppendInt(nil, n.zeros, 10)
	case n.isDirectory():
		kind = "directory"
	case n.link != "":
		kind, data = "link", []byte(n.link)
	}
	fmt.Fprintf(sum, "%s %d %s %d ", kind, len(name), name, len(data))
	sum.Write(data)
}

// find walks the elements down from n.
func (n *node) find(elements []string) (*node, error) {
	for _, element := range elements {
		var err error
		if n, err = n.child(element); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// findPath is find for a path; "" is n itself.
func (n *node) findPath(rest string) (*node, error) {
	for rest != "" {
		var element string
		var err error
		element, rest, _ = strings.Cut(rest, "/")
		if n, err = n.child(element); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// child returns an entry of the directory n.
func (n *node) child(name string) (*node, error) {
	if !n.isDirectory() {
		return nil, syscall.ENOTDIR
	}
	if child := n.children[name]; child != nil {
		return child, nil
	}
	return nil, fs.ErrNotExist
}

// makeAll creates the missing directories among those that elements name.
func (n *node) makeAll(elements []string) error {
	for _, element := range elements {
		if !n.isDirectory() {
			return syscall.ENOTDIR
		}
		if n.children[element] == nil {
			n.add(element, newDirectory())
		}
		n = n.children[element]
	}
	if !n.isDirectory() {
		return syscall.ENOTDIR
	}
	return nil
}

// write replaces or creates the file that elements name.
func (n *node) write(elements []string, data []byte) error {
	return n.replace(elements, &node{data: slices.Clone(data), mode: fileMode})
}

// replace puts a file in the place that elements name.
func (n *node) replace(elements []string, file *node) error {
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
	directory.add(name, file)
	return nil
}

// symlink creates the symbolic link that elements name.
func (n *node) symlink(elements []string, target string) error {
	directory, name, err := n.parent(elements)
	switch {
	case err != nil:
		return err
	case target == "":
		return syscall.ENOENT
	case directory.children[name] != nil:
		return syscall.EEXIST
	}
	directory.add(name, &node{link: target, mode: linkMode})
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

// removeAll removes what elements name, with everything below it.
func (n *node) removeAll(elements []string) error {
	directory, name, err := n.parent(elements)
	if err != nil {
		return err
	}
	delete(directory.children, name)
	return nil
}

// parent returns the directory of the last element, and the element's name.
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
