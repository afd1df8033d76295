package nodefs

import (
	"cmp"
	"errors"
	"hash"
	"io"
	"maps"
	"os"
	"slices"
	"syscall"
)

// deviceIO reads and writes the bytes of block devices.
type deviceIO interface {
	// ReadDevice reads the bytes of the device at path from an offset. The error is io.EOF at its end, and
	// syscall.ENOTBLK for anything but a device.
	ReadDevice(path string, p []byte, offset int64) (int, error)
	// WriteDevice writes bytes of the device at path from an offset. Beyond its end it returns syscall.ENOSPC, with the
	// number of bytes written, and through a read-only mount ErrReadOnly.
	WriteDevice(path string, p []byte, offset int64) (int, error)
}

// pageBytes is the size of a page of a device in memory.
const pageBytes = 4096

// A page is pageBytes of a device in memory, from a multiple of that. It is not changed, but replaced.
type page []byte

// SetDeviceBytes sets the size of a device, and the tree that has its bytes: so several nodes can have the device, and
// Tree.Clone copies its bytes. Without it a device's bytes are those of the node.
func (m *Memory) SetDeviceBytes(device string, in *Tree, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content := m.contentOf(device)
	content.bytes, content.size = in, size
}

// SetTreeSize sets what Capacity returns for a mounted tree, on all nodes.
func (m *Memory) SetTreeSize(tree *Tree, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tree.capacity.Store(size)
}

// bytesAt returns the tree with the bytes of the device at a path, and the size of the device. The caller holds m.mu.
func (m *Memory) bytesAt(operation, name string) (location, *Tree, int64, error) {
	here, content, err := m.deviceAt(operation, name)
	if err != nil {
		return here, nil, 0, err
	}
	if content.bytes == nil {
		content.bytes = NewTree()
	}
	return here, content.bytes, content.size, nil
}

// ReadDevice implements FS. What was never written is zero, and so is a file system.
func (m *Memory) ReadDevice(name string, p []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, tree, size, err := m.bytesAt("read", name)
	if err != nil {
		return 0, err
	}
	if offset >= size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), size-offset))
	tree.mu.Lock()
	defer tree.mu.Unlock()
	clear(p[:n])
	eachPage(p[:n], offset, func(part []byte, number, at int64) {
		if page := tree.pages[number]; page != nil {
			copy(part, page[at:])
		}
	})
	return n, nil
}

// WriteDevice implements FS.
func (m *Memory) WriteDevice(name string, p []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, tree, size, err := m.bytesAt("write", name)
	if err != nil {
		return 0, err
	}
	if here.mount.readOnly {
		return 0, pathError("write", name, ErrReadOnly)
	}
	n := int(max(0, min(int64(len(p)), size-offset)))
	tree.mu.Lock()
	defer tree.mu.Unlock()
	if tree.pages == nil {
		tree.pages = map[int64]page{}
	}
	eachPage(p[:n], offset, func(part []byte, number, at int64) {
		replaced := make(page, pageBytes)
		copy(replaced, tree.pages[number])
		copy(replaced[at:], part)
		tree.pages[number] = replaced
	})
	if n < len(p) {
		return n, pathError("write", name, syscall.ENOSPC)
	}
	return n, nil
}

// eachPage calls f for each part of p that is in one page, with the page's number and where the part begins in it.
func eachPage(p []byte, offset int64, f func(part []byte, number, at int64)) {
	for len(p) > 0 {
		at := offset % pageBytes
		n := min(len(p), int(pageBytes-at))
		f(p[:n], offset/pageBytes, at)
		p, offset = p[n:], offset+int64(n)
	}
}

// hashPages adds the pages of a device to a hash. One with zeros only is as if it was never written.
func (t *Tree) hashPages(sum hash.Hash) {
	zero := make(page, pageBytes)
	for _, number := range slices.Sorted(maps.Keys(t.pages)) {
		if p := t.pages[number]; !slices.Equal(p, zero) {
			sum.Write([]byte("page "))
			for shift := 56; shift >= 0; shift -= 8 {
				sum.Write([]byte{byte(number >> shift)})
			}
			sum.Write(p)
		}
	}
}

// ReadDevice implements FS.
func (r *Real) ReadDevice(name string, p []byte, offset int64) (int, error) {
	return r.deviceIO(name, os.O_RDONLY, func(f *os.File) (int, error) {
		n, err := f.ReadAt(p, offset)
		if n > 0 && errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	})
}

// WriteDevice implements FS. The bytes are on the device when it returns.
func (r *Real) WriteDevice(name string, p []byte, offset int64) (int, error) {
	return r.deviceIO(name, os.O_WRONLY, func(f *os.File) (int, error) {
		n, err := f.WriteAt(p, offset)
		return n, cmp.Or(err, f.Sync())
	})
}

func (r *Real) deviceIO(name string, flags int, do func(*os.File) (int, error)) (n int, err error) {
	place, isDirectory, err := r.resolveExisting(name)
	if err != nil {
		return 0, err
	}
	if isDirectory {
		return 0, pathError("open", name, syscall.EISDIR)
	}
	if _, err := r.DeviceOf(place); err != nil {
		return 0, pathError("open", name, errors.Join(syscall.ENOTBLK, err))
	}
	f, err := os.OpenFile(place, flags, 0)
	if err != nil {
		return 0, classify(err)
	}
	n, err = do(f)
	return n, errors.Join(err, f.Close())
}
