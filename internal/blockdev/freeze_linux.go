package blockdev

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The requests by which a file system is frozen and thawed: linux/fs.h, not in
// package unix.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// Frozen is a file system that is frozen. While it is held, that cannot be
// unmounted; nil is one that is not.
type Frozen struct{ file *os.File }

// Freeze writes what is in memory of the file system on a device to the device, and
// has the kernel hold up who writes to it until it is thawed: also when this process
// ends before. It returns nil if the device is not mounted where this process sees
// it; see InUse. One that is frozen already is ErrFrozen.
func Freeze(device string) (*Frozen, error) {
	rows, err := Mounts(device)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	file, err := openMountRoot(rows)
	if err != nil {
		return nil, fmt.Errorf("freeze %s: %w", device, err)
	}
	err = unix.IoctlSetInt(int(file.Fd()), fiFreeze, 0)
	if err == nil {
		return &Frozen{file: file}, nil
	}
	file.Close()
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("%w, by hand or by a program that was killed: fsfreeze -u %s thaws it", ErrFrozen, file.Name())
	}
	return nil, fmt.Errorf("freeze %s: %w", device, err)
}

// Thaw ends the freezing. One that somebody else has thawed is fine.
func (f *Frozen) Thaw() error {
	if f == nil {
		return nil
	}
	defer f.file.Close()
	err := unix.IoctlSetInt(int(f.file.Fd()), fiThaw, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%s stays frozen (fsfreeze -u %s thaws it): %w", f.file.Name(), f.file.Name(), err)
	}
	return nil
}

// Thaw thaws the file system on a device, whoever froze it; false if it was not
// frozen, or is not mounted.
func Thaw(device string) (bool, error) {
	rows, err := Mounts(device)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	file, err := openMountRoot(rows)
	if err != nil {
		return false, fmt.Errorf("thaw %s: %w", device, err)
	}
	defer file.Close()
	err = unix.IoctlSetInt(int(file.Fd()), fiThaw, 0)
	if errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("thaw %s at %s: %w", device, file.Name(), err)
	}
	return true, nil
}
