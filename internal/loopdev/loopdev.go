//go:build linux

package loopdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// attachTriesMax bounds the race for a free device. Every lost try was won by a concurrent
	// caller, so it also bounds the number of concurrent callers.
	attachTriesMax   = 1000
	unboundChecksMax = 1000
	unboundInterval  = 2 * time.Millisecond // 2 s in total
)

// Bind binds file, which may be a device node, to a free loop device and returns the device's node.
// The mark has at most 63 bytes. If no device is free, the kernel creates one; if that fails, Bind
// returns ErrNone.
func Bind(ctx context.Context, file, mark string, readOnly bool) (string, error) {
	mode := os.O_RDWR
	config := unix.LoopConfig{}
	if readOnly {
		mode = os.O_RDONLY
		config.Info.Flags = unix.LO_FLAGS_READ_ONLY
	}
	backing, err := os.OpenFile(file, mode, 0)
	if err != nil {
		return "", err
	}
	defer backing.Close()
	control, err := os.OpenFile(ControlNode, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()
	config.Fd = uint32(backing.Fd())
	copy(config.Info.File_name[:len(config.Info.File_name)-1], mark)
	for range attachTriesMax {
		if err = ctx.Err(); err != nil {
			return "", err
		}
		var device string
		if device, err = freeLoop(control); err != nil {
			return "", err
		}
		if err = configureLoop(device, &config); err == nil {
			return device, nil
		}
		if !lostRace(err) {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: gave up after %d tries: %w", ErrNone, attachTriesMax, err)
}

// freeLoop returns the node of a device that is currently free.
func freeLoop(control *os.File) (string, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENODEV) {
		return "", fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err != nil {
		return "", fmt.Errorf("LOOP_CTL_GET_FREE: %w", err)
	}
	return fmt.Sprintf("/dev/loop%d", number), nil
}

// configureLoop binds a device in one step. It must not undo a failure, because the device may be
// bound by another process by then.
func configureLoop(device string, config *unix.LoopConfig) error {
	node, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := unix.IoctlLoopConfigure(int(node.Fd()), config); err != nil {
		return &fs.PathError{Op: "LOOP_CONFIGURE", Path: device, Err: err}
	}
	return nil
}

// lostRace reports whether another process took the device (EBUSY), or whether the device appeared
// or disappeared between being named and being opened.
func lostRace(err error) bool {
	return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO)
}

// Unbind unbinds the device if it still has the binding seen, and waits until that is done. It
// returns ErrInUse for a device that is mounted in any mount namespace, or held by another driver.
// It returns ErrStillOpen for a device that another process has open.
func Unbind(ctx context.Context, seen Binding) error {
	if err := clearLoop(seen); err != nil {
		return err
	}
	return waitUnbound(ctx, seen)
}

// Grow sets the size of a device to that of its file. The device may be in use. A device without
// the binding seen is left unchanged, which is an error.
func Grow(seen Binding) error {
	return request(seen, "LOOP_SET_CAPACITY", unix.LOOP_SET_CAPACITY, 0)
}

// EnableDirectIO makes a device bypass the page cache of its file. The device may be in use. It is
// an error if the device no longer has the binding seen, or if its file does not support direct
// I/O.
func EnableDirectIO(seen Binding) error {
	return request(seen, "LOOP_SET_DIRECT_IO", unix.LOOP_SET_DIRECT_IO, 1)
}

// request sends an ioctl to a device that has the binding seen.
func request(seen Binding, name string, number uint, value int) error {
	node, err := os.OpenFile(seen.Device, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer node.Close()
	same, err := isSameBinding(node, seen)
	if err == nil && !same {
		err = unix.ENXIO
	}
	if err == nil {
		err = unix.IoctlSetInt(int(node.Fd()), number, value)
	}
	if err != nil {
		return &fs.PathError{Op: name, Path: seen.Device, Err: err}
	}
	return nil
}

// clearLoop opens the device exclusively. The kernel refuses that for a mounted device, and refuses
// to mount it until it is cleared. Without that, LOOP_CLR_FD succeeds on a mounted device and
// unbinds it later.
func clearLoop(seen Binding) error {
	node, err := os.OpenFile(seen.Device, os.O_RDONLY|unix.O_EXCL, 0)
	if isUnbound(err) {
		return nil
	}
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return err
	}
	defer node.Close()
	same, err := isSameBinding(node, seen)
	if err != nil || !same {
		return err
	}
	if err := unix.IoctlSetInt(int(node.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !isUnbound(err) {
		return &fs.PathError{Op: "LOOP_CLR_FD", Path: seen.Device, Err: err}
	}
	return nil
}

// waitUnbound polls until the device no longer has the binding seen. Usually that holds at once.
// While another process has the device open, as udev does after each change, the kernel postpones
// the unbinding. waitUnbound returns ErrStillOpen after 2 s.
func waitUnbound(ctx context.Context, seen Binding) error {
	ticker := time.NewTicker(unboundInterval)
	defer ticker.Stop()
	for range unboundChecksMax {
		node, err := os.Open(seen.Device)
		if isUnbound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		same, err := isSameBinding(node, seen)
		node.Close()
		if err != nil || !same {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to be unbound: %w", seen.Device, ctx.Err())
		case <-ticker.C:
		}
	}
	return ErrStillOpen
}

// isSameBinding reports whether an open device has the binding seen.
func isSameBinding(node *os.File, seen Binding) (bool, error) {
	now, err := statusOf(node)
	if isUnbound(err) {
		return false, nil
	}
	return now.Mark == seen.Mark && now.Inode == seen.Inode && now.FileSystem == seen.FileSystem, err
}

// isUnbound reports whether an error means that a device has no file or does not exist.
func isUnbound(err error) bool { return errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOENT) }

// statusOf returns the status of a bound device, without the path of its file.
func statusOf(node *os.File) (Binding, error) { return statusOfFD(int(node.Fd()), node.Name()) }

func statusOfFD(node int, device string) (Binding, error) {
	info, err := unix.IoctlLoopGetStatus64(node)
	if err != nil {
		return Binding{}, &fs.PathError{Op: "LOOP_GET_STATUS64", Path: device, Err: err}
	}
	return Binding{
		Device:     device,
		Mark:       unix.ByteSliceToString(info.File_name[:]),
		Inode:      info.Inode,
		FileSystem: info.Device,
		ReadOnly:   info.Flags&unix.LO_FLAGS_READ_ONLY != 0,
		Autoclear:  info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0,
		Direct:     info.Flags&unix.LO_FLAGS_DIRECT_IO != 0,
	}, nil
}

// List returns the bound devices whose backing file is wanted, in sysfs's order. It opens no other
// device. In other mount namespaces, as of containers, other files may have the same paths. A device
// over one of these is omitted. That cannot be decided for a file that was removed.
func List(wanted func(backing string) bool) ([]Binding, error) {
	return list(wanted, func(b Binding) bool { return b.Deleted || b.isHere() })
}

// Over returns the devices over those of the given files that exist, in sysfs's order. The process
// that bound a device may have had another path to the file, as in a container: BackingFile is then
// that path. Over opens all bound devices.
func Over(files ...string) ([]Binding, error) {
	type number struct{ inode, fileSystem uint64 }
	numbers := map[number]bool{}
	for _, file := range files {
		var info unix.Stat_t
		err := unix.Stat(file, &info)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, &fs.PathError{Op: "stat", Path: file, Err: err}
		}
		if err == nil {
			numbers[number{info.Ino, info.Dev}] = true
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	return list(func(string) bool { return true }, func(b Binding) bool { return numbers[number{b.Inode, b.FileSystem}] })
}

// list returns the bound devices that are kept, of those with a wanted backing file.
func list(wanted func(backing string) bool, keep func(Binding) bool) ([]Binding, error) {
	directories, err := filepath.Glob("/sys/block/loop*")
	if err != nil {
		return nil, err
	}
	var loops []Binding
	for _, directory := range directories {
		if unix.Access(directory+"/loop", unix.F_OK) != nil {
			continue // unbound, as most are
		}
		backing, _, err := backingFile(directory)
		if err != nil {
			return nil, err
		}
		if backing == "" || !wanted(backing) {
			continue
		}
		bound, err := readLoop(directory, backing)
		if err != nil {
			return nil, err
		}
		if bound.BackingFile != "" && keep(bound) {
			loops = append(loops, bound)
		}
	}
	return loops, nil
}

// isHere reports whether the path of the backing file leads this process to that file.
func (b Binding) isHere() bool {
	var file unix.Stat_t
	return unix.Stat(b.BackingFile, &file) == nil && file.Ino == b.Inode && file.Dev == b.FileSystem
}

// At returns the binding of a device, or the zero value if it is unbound or does not exist.
func At(device string) (Binding, error) {
	directory := filepath.Join("/sys/block", filepath.Base(device))
	backing, _, err := backingFile(directory)
	if err != nil || backing == "" {
		return Binding{}, err
	}
	return readLoop(directory, backing)
}

// Status works like At without BackingFile and Deleted. The file's numbers still identify it. It
// takes a tenth of the time.
func Status(device string) (Binding, error) {
	node, err := unix.Open(device, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if isUnbound(err) {
		return Binding{}, nil
	}
	if err != nil {
		return Binding{}, &fs.PathError{Op: "open", Path: device, Err: err}
	}
	defer unix.Close(node)
	bound, err := statusOfFD(node, device)
	if isUnbound(err) {
		return Binding{}, nil
	}
	return bound, err
}

// readLoop reads the status of an open device. While it is open its binding cannot change, so sysfs
// and the ioctl agree. The result is empty if the backing file has changed before.
func readLoop(directory, backing string) (Binding, error) {
	node, err := os.Open(filepath.Join("/dev", filepath.Base(directory)))
	if isUnbound(err) {
		return Binding{}, nil
	}
	if err != nil {
		return Binding{}, err
	}
	defer node.Close()
	bound, err := statusOf(node)
	if isUnbound(err) {
		return Binding{}, nil
	}
	if err != nil {
		return Binding{}, err
	}
	now, deleted, err := backingFile(directory)
	if err != nil || now != backing {
		return Binding{}, err
	}
	bound.BackingFile, bound.Deleted = backing, deleted
	return bound, nil
}

// backingFile returns a device's backing file from sysfs ("" if unbound), and whether that file was
// removed.
func backingFile(directory string) (file string, deleted bool, err error) {
	text, err := os.ReadFile(filepath.Join(directory, "loop", "backing_file"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
		return "", false, nil
	}
	file, deleted = strings.CutSuffix(strings.TrimSuffix(string(text), "\n"), " (deleted)")
	return file, deleted, err
}
