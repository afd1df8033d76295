package nodefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/volsim/volsim/internal/loopdev"
)

const (
	// deviceFSType is the file system type that Mounts reports for device nodes in Memory, as Linux
	// does.
	deviceFSType = "devtmpfs"
	deviceMode   = fs.FileMode(0o600)
	// lockMark is written on the loop devices that hold a lock. UnmountAll finds them by it.
	lockMark = "volsim:lock"
)

// deviceLock is a lock of a Memory.
type deviceLock struct {
	mount *mount // the mount that it keeps busy
	path  string
	loop  int
}

// MountDevice makes a device node visible at the existing file name. Stat and Mounts report device
// as the device's name. All nodes of one device share an owner and a mode. A device has a file system
// once FormatAndMount was called; it has no bytes to read.
func (m *Memory) MountDevice(device, name string, readOnly bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.devices == nil {
		m.devices = NewTree()
	}
	return m.attach(name, &mount{
		tree: m.devices, at: m.devices.deviceNode(device),
		source: device, fsType: deviceFSType, readOnly: readOnly,
	})
}

// deviceNode returns the node of a device. It creates the node on first use.
func (t *Tree) deviceNode(name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.root.children[name]
	if found == nil {
		found = &node{device: name, mode: deviceMode}
		t.root.put(name, found)
	}
	return found
}

// LockDevice implements FS. Loop devices are numbered from 0; free numbers are reused.
func (m *Memory) LockDevice(name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.existing(name)
	if err != nil {
		return "", err
	}
	if found, err := here.find(); err == nil && found.isDirectory() {
		return "", pathError("lock", name, syscall.EISDIR)
	}
	used := map[int]bool{}
	for _, each := range m.locks {
		if each.path == here.path {
			return each.device(), nil
		}
		used[each.loop] = true
	}
	lock := deviceLock{mount: here.mount, path: here.path}
	for used[lock.loop] {
		lock.loop++
	}
	m.locks = append(m.locks, lock)
	return lock.device(), nil
}

// DeviceLock implements FS.
func (m *Memory) DeviceLock(name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.existing(name)
	if err != nil {
		return "", err
	}
	for _, each := range m.locks {
		if each.path == here.path {
			return each.device(), nil
		}
	}
	return "", pathError("device lock", name, fs.ErrNotExist)
}

// UnlockDevice implements FS.
func (m *Memory) UnlockDevice(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.existing(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	m.locks = slices.DeleteFunc(m.locks, func(l deviceLock) bool { return l.path == here.path })
	return nil
}

// isLocked reports whether a lock keeps a mount busy.
func (m *Memory) isLocked(mount *mount) bool {
	return slices.ContainsFunc(m.locks, func(l deviceLock) bool { return l.mount == mount })
}

func (l deviceLock) device() string { return fmt.Sprintf("/dev/loop%d", l.loop) }

// BindDevice makes a device node of the machine visible at the existing file target. The node lies
// outside the root.
func (r *Real) BindDevice(device, target string, readOnly bool) error {
	if _, err := r.DeviceOf(device); err != nil || !filepath.IsAbs(device) {
		return errors.Join(fmt.Errorf("bind %q to %s: not a device node of the machine", device, target), err)
	}
	return r.bind(device, false, target, readOnly)
}

// LockDevice implements FS. The loop device is read-only.
//
// Upstream: pkg/volume/util/volumepathhandler AttachFileDevice (v1.36).
//
// Differs: a lock over a file that has since been removed is ignored.
func (r *Real) LockDevice(name string) (string, error) {
	place, loops, err := r.lockedBy(name)
	if err != nil {
		return "", err
	}
	for _, each := range loops {
		if !each.Deleted {
			return each.Device, nil
		}
	}
	loop, err := loopdev.Bind(context.Background(), place, lockMark, true) //nolint:forbidigo // its tries are bounded
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", name, err)
	}
	return loop, nil
}

// DeviceLock implements FS.
//
// Upstream: pkg/volume/util/volumepathhandler GetLoopDevice (v1.36).
func (r *Real) DeviceLock(name string) (string, error) {
	_, loops, err := r.lockedBy(name)
	if err != nil {
		return "", err
	}
	for _, each := range loops {
		if !each.Deleted {
			return each.Device, nil
		}
	}
	return "", pathError("device lock", name, fs.ErrNotExist)
}

// UnlockDevice implements FS.
//
// Upstream: pkg/volume/util/volumepathhandler DetachFileDevice (v1.36).
func (r *Real) UnlockDevice(name string) error {
	_, loops, err := r.lockedBy(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	return unlock(loops)
}

// unlockAll releases every lock below the root.
func (r *Real) unlockAll() error {
	loops, err := loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, r.resolved+"/") })
	if err != nil {
		return err
	}
	return unlock(slices.DeleteFunc(loops, func(l loopdev.Binding) bool { return l.Mark != lockMark }))
}

func unlock(loops []loopdev.Binding) error {
	var failed []error
	for _, each := range loops {
		if err := loopdev.Unbind(context.Background(), each); err != nil { //nolint:forbidigo // the wait is bounded
			failed = append(failed, fmt.Errorf("unlock %s: %w", each.BackingFile, err))
		}
	}
	return errors.Join(failed...)
}

// lockedBy returns the resolved path of the existing file at name and the loop devices over it.
func (r *Real) lockedBy(name string) (string, []loopdev.Binding, error) {
	place, isDirectory, err := r.resolveExisting(name)
	if err != nil {
		return "", nil, err
	}
	if isDirectory {
		return "", nil, pathError("lock", name, syscall.EISDIR)
	}
	loops, err := loopdev.List(func(backing string) bool { return backing == place })
	return place, loops, err
}
