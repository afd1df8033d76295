package lvm2

import (
	"context"
	"errors"
	"fmt"

	"github.com/volsim/volsim/internal/blockdev"
)

// copy copies a volume's content to a new one. The caller holds the locks of both volumes, and not
// that of the metadata. If frozen is set, the caller has frozen the source.
func (g *VolumeGroup) copy(ctx context.Context, from, to LogicalVolume, frozen bool) (err error) {
	stable, release, err := g.freeze(ctx, from.Name, to.Name+".source", frozen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	report, err := g.Report(ctx)
	if err != nil {
		return err
	}
	return g.system.activator.copy(ctx, report, stable, to)
}

// freeze returns a volume with the current content of another one, which does not change until
// release is called. With enough room it is a snapshot under an unused name. Otherwise it is the
// volume itself, with its file system frozen unless the caller has frozen it.
func (g *VolumeGroup) freeze(
	ctx context.Context, source, name string, frozen bool,
) (stable LogicalVolume, release func() error, err error) {
	report, volume, err := g.find(ctx, source)
	if err != nil {
		return volume, nil, err
	}
	device, err := g.system.activator.find(report, volume)
	if err != nil {
		return volume, nil, err
	}
	unchanged := func() error { return nil }
	switch {
	case device == "" || volume.ReadOnly:
		return volume, unchanged, nil
	case frozen:
		return volume, unchanged, blockdev.Flush(device)
	case g.Capabilities().Snapshots && report.hasRoomForSnapshot(volume):
		return g.temporarySnapshot(ctx, volume, name)
	}
	frozenFS, err := blockdev.Freeze(device)
	if err != nil {
		return volume, nil, err
	}
	if frozenFS == nil {
		err = g.checkUnused(volume, device)
	}
	if err == nil {
		err = blockdev.Flush(device)
	}
	if err != nil {
		return volume, nil, errors.Join(err, frozenFS.Thaw())
	}
	return volume, frozenFS.Thaw, nil
}

// hasRoomForSnapshot reports whether there is room for a snapshot of everything in a volume. A
// snapshot of a thin volume only takes what is written meanwhile.
func (r *Report) hasRoomForSnapshot(volume LogicalVolume) bool {
	switch volume.Layout {
	case Thin:
		return true
	case Linear, Striped, RAID1:
		return r.Free >= (snapshotSize(volume.Size)+r.ExtentSize-1)/r.ExtentSize*r.ExtentSize
	case ThinPool, Snapshot:
	}
	return false
}

// checkUnused returns an error for a volume that is not mounted but may change while it is copied.
func (g *VolumeGroup) checkUnused(volume LogicalVolume, device string) error {
	isOpen, err := blockdev.IsOpen(device)
	if err != nil || !isOpen && !volume.open {
		return err
	}
	if g.Capabilities().Snapshots {
		return fmt.Errorf("%w: %s is used as a device (%s), so copying it needs a temporary snapshot of %d bytes: "+
			"free space, or stop its user",
			ErrNoSpace, volume.Name, device, snapshotSize(volume.Size))
	}
	return fmt.Errorf("%w: %s is used as a device (%s), and would change while it is copied: stop its user",
		ErrInUse, volume.Name, device)
}

// temporarySnapshot creates a snapshot that exists until it is released.
func (g *VolumeGroup) temporarySnapshot(
	ctx context.Context, volume LogicalVolume, name string,
) (snapshot LogicalVolume, release func() error, err error) {
	err = g.withMetadata(ctx, func() (err error) {
		snapshot, err = g.snapshot(ctx, volume, Spec{Name: name, Tags: []string{unfinishedTag}}, true)
		return err
	})
	after := context.WithoutCancel(ctx)
	return snapshot, func() error { return g.withMetadata(after, func() error { return g.remove(after, name) }) }, err
}

// copyThroughDevices copies a volume through the devices of both. If the target reads as zeros, it
// does not write zeros.
func copyThroughDevices(ctx context.Context, a activator, report *Report, from, to LogicalVolume, zeroed bool) error {
	return withDevice(ctx, a, report, from, func(source string) error {
		return withDevice(ctx, a, report, to, func(target string) error {
			return copyDevice(ctx, source, target, from.Size, zeroed)
		})
	})
}

// withDevice runs f with the device of a volume, and activates the volume meanwhile if necessary.
func withDevice(
	ctx context.Context, a activator, report *Report, volume LogicalVolume, f func(device string) error,
) error {
	device, err := a.find(report, volume)
	if err == nil && device != "" {
		return f(device)
	}
	if err == nil {
		device, err = a.activate(ctx, report, volume)
	}
	if err != nil {
		return err
	}
	return errors.Join(f(device), a.deactivate(context.WithoutCancel(ctx), report, volume))
}
