package nodefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	mountutils "k8s.io/mount-utils"
)

// memoryCapacity is the capacity of the disk of a Memory, and of a tmpfs and a tree without a size.
const memoryCapacity = 16 << 30

// The file system that a device gets without a type, and the mode of its top, as mkfs makes it.
const (
	defaultFSType = "ext4"
	formattedMode = 0o755
)

// deviceContent is what is on a device of a Memory. It survives a reboot.
type deviceContent struct {
	size   int64
	tree   *Tree // its file system; nil: none
	fsType string
	bytes  *Tree // that has its bytes; nil: none was written
}

// SetDeviceSize sets the size in bytes of a device. Without it a device has no bytes.
func (m *Memory) SetDeviceSize(device string, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.contentOf(device).size = size
}

// FileSystem returns the type of the file system on the device at a path, or "" if the device has none.
func (m *Memory) FileSystem(name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, content, err := m.deviceAt("probe", name)
	if err != nil {
		return "", err
	}
	return content.fsType, nil
}

// contentOf returns the content of a device. The caller holds m.mu.
func (m *Memory) contentOf(device string) *deviceContent {
	content := m.contents[device]
	if content == nil {
		content = &deviceContent{}
		if m.contents == nil {
			m.contents = map[string]*deviceContent{}
		}
		m.contents[device] = content
	}
	return content
}

// deviceAt returns the location and the content of the block device at a path. The caller holds
// m.mu.
func (m *Memory) deviceAt(operation, name string) (location, *deviceContent, error) {
	here, err := m.locate(name)
	if err != nil {
		return location{}, nil, err
	}
	found, err := here.find()
	if err == nil && found.device == "" {
		err = syscall.ENOTBLK
	}
	if err != nil {
		return location{}, nil, pathError(operation, name, err)
	}
	return here, m.contentOf(found.device), nil
}

// FormatAndMount implements FS. A formatted device is never formatted again. Of the options only
// "ro" has an effect.
func (m *Memory) FormatAndMount(ctx context.Context, device, target, fsType string, options []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, content, err := m.deviceAt("mount", device)
	if err != nil {
		return err
	}
	if fsType == "" {
		fsType = defaultFSType
	}
	readOnly := slices.Contains(options, "ro")
	switch {
	case content.tree == nil && readOnly:
		return mountutils.NewMountError(mountutils.UnformattedReadOnly,
			"device %s has no file system, and is not formatted for a read-only mount", device)
	case content.tree != nil && content.fsType != fsType:
		return mountutils.NewMountError(mountutils.FilesystemMismatch,
			"device %s has the file system %s, not %s", device, content.fsType, fsType)
	}
	tree := content.tree
	if tree == nil {
		tree = NewTree()
		tree.root.mode = formattedMode
		tree.capacity.Store(content.size)
	}
	err = m.attach(target, &mount{tree: tree, at: tree.root, source: device, fsType: fsType, readOnly: readOnly})
	if err == nil {
		content.tree, content.fsType = tree, fsType
	}
	return err
}

// Grow implements FS.
func (m *Memory) Grow(_ context.Context, device, target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, content, err := m.deviceAt("grow", device)
	if err != nil {
		return err
	}
	here, err := m.existing(target)
	if err != nil {
		return err
	}
	if content.tree == nil || here.mount.tree != content.tree {
		return pathError("grow", target, ErrNotMounted)
	}
	content.tree.capacity.Store(max(content.tree.capacity.Load(), content.size))
	return nil
}

// Wipe implements FS.
func (m *Memory) Wipe(ctx context.Context, device string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	here, content, err := m.deviceAt("wipe", device)
	if err != nil {
		return err
	}
	node, err := here.find()
	if err != nil {
		return pathError("wipe", device, err)
	}
	for _, each := range m.mounts {
		if content.tree != nil && each.tree == content.tree || each.at == node && each.key.path != here.path {
			return pathError("wipe", device, ErrBusy)
		}
	}
	content.tree, content.fsType = nil, ""
	if content.bytes != nil {
		content.bytes.mu.Lock()
		content.bytes.pages = nil
		content.bytes.mu.Unlock()
	}
	return nil
}

// Capacity implements FS.
func (m *Memory) Capacity(name string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.existing(name)
	if err != nil {
		return 0, err
	}
	if _, content, err := m.deviceAt("capacity", name); err == nil {
		return content.size, nil
	}
	if size := here.mount.tree.capacity.Load(); size > 0 {
		return size, nil
	}
	return memoryCapacity, nil
}

// errInUse is the error for a device that must not change.
func errInUse(device string) error {
	return fmt.Errorf("wipe %s: it is in use: %w", device, ErrBusy)
}

// Wipe implements FS. The kernel zeroes the device; over a sparse file that takes no space.
func (r *Real) Wipe(ctx context.Context, device string) error {
	place, isDirectory, err := r.resolveExisting(device)
	if err != nil {
		return err
	}
	if isDirectory {
		return pathError("wipe", device, syscall.ENOTBLK)
	}
	number, err := r.DeviceOf(place)
	if err != nil {
		return errors.Join(pathError("wipe", device, syscall.ENOTBLK), err)
	}
	rows, err := r.Mounts()
	if err != nil {
		return err
	}
	for _, row := range rows {
		at, err := r.resolve(row.Path)
		if err != nil || at == place {
			continue
		}
		if other, err := r.DeviceOf(at); err == nil && other == number {
			return errInUse(device)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return wipe(device, place)
}
