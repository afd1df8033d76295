package lvm2

import (
	"context"
	"errors"
	"fmt"

	"github.com/volsim/volsim/internal/loopdev"
)

// Release releases the loop devices that a System of this configuration bound to its disks, after
// its process was killed. It deactivates the volumes on them and changes nothing on the disks. It
// returns ErrInUse if a volume is in use. The metadata need not be readable, unless device-mapper
// has volumes on the disks.
func Release(ctx context.Context, config Config, disks ...loopdev.Binding) error {
	err := deactivateOn(ctx, config, disks)
	var failed []error
	for _, each := range disks {
		failed = append(failed, unbind(ctx, each))
	}
	if errors.Join(failed...) == nil {
		return nil // so nothing was active
	}
	return errors.Join(append(failed, err)...)
}

// deactivateOn makes device-mapper release disks.
func deactivateOn(ctx context.Context, config Config, disks []loopdev.Binding) error {
	if len(disks) == 0 || !hasDeviceMapper() {
		return nil
	}
	config.Mode = DeviceMapper
	s, err := Open(config)
	if err != nil {
		return err
	}
	var failed []error
	for _, each := range disks {
		_, err := s.AddDevice(ctx, each.Device)
		failed = append(failed, err)
	}
	_, err = s.lvm(ctx, "vgchange", "-q", "-y", "-an")
	return errors.Join(append(failed, err, s.Close())...)
}

// unbind removes the loop device of a disk, and its partitions first: the kernel would show them on
// what is bound to the device next.
func unbind(ctx context.Context, disk loopdev.Binding) error {
	if err := removePartitions(ctx, disk.Device); err != nil {
		return err
	}
	err := loopdev.Unbind(ctx, disk)
	if errors.Is(err, loopdev.ErrInUse) {
		err = fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return err
}
