package blockdev

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The ioctl requests that freeze and thaw a file system, from linux/fs.h. Package unix lacks them.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// Frozen is a frozen file system. It cannot be unmounted while a Frozen holds it. A nil Frozen
// holds nothing.
type Frozen struct{ file *os.File }

// Freeze flushes the file system on a device and blocks writers until it is thawed, even if this
// process ends first. It returns nil if this process does not see the device mounted; see InUse. It
// returns ErrFrozen if the file system is already frozen.
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
		err = fmt.Errorf("%w, manually or by a process that was killed: run fsfreeze -u %s to thaw it", ErrFrozen,
			file.Name())
	}
	return nil, fmt.Errorf("freeze %s: %w", device, err)
}

// Thaw thaws the file system. A file system that has been thawed by others is not an error.
func (f *Frozen) Thaw() error {
	if f == nil {
		return nil
	}
	defer f.file.Close()
	err := unix.IoctlSetInt(int(f.file.Fd()), fiThaw, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%s stays frozen (run fsfreeze -u %s to thaw it): %w", f.file.Name(), f.file.Name(), err)
	}
	return nil
}

// Thaw thaws the file system on a device, whichever process froze it. It reports false if the file
// system was not frozen or is not mounted.
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
