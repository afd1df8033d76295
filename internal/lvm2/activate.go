package lvm2

import (
	"context"
	"errors"
	"fmt"

	"github.com/volsim/volsim/internal/blockdev"
)

// Capabilities are what a way to make volumes devices can do.
type Capabilities struct {
	// Layouts are what can be created.
	Layouts []Layout
	// NonContiguous tells whether a volume may lie in several pieces, and so grow wherever
	// there are free extents.
	NonContiguous bool
	// Snapshots tells whether a snapshot shares with its origin what both have in
	// common. Otherwise it is a copy.
	Snapshots bool
	// ActiveMax is how many volumes of one disk can be active; 0 means that there is no bound.
	ActiveMax int
}

func (c Capabilities) has(layout Layout) bool {
	for _, each := range c.Layouts {
		if each == layout {
			return true
		}
	}
	return false
}

// activator is a way to make volumes devices. Whoever calls it has the locks of
// the volumes, which cannot have changed since the report then.
type activator interface {
	capabilities() Capabilities
	// createOptions are the arguments of lvcreate that it needs.
	createOptions() []string
	// find returns a volume's device, or "" if it is not active.
	find(report *Report, volume LogicalVolume) (string, error)
	// findAll returns the devices of all volumes that are active, by their names.
	// Those on a disk that is not there are left out.
	findAll(report *Report) (map[string]string, error)
	// activate makes a volume's device, if it has none, as large as the volume is.
	activate(ctx context.Context, report *Report, volume LogicalVolume) (string, error)
	// resize makes the device of a volume that is active as large as the volume is.
	resize(report *Report, volume LogicalVolume) error
	// deactivate takes a volume's device away, for sure, or gives ErrInUse.
	deactivate(ctx context.Context, report *Report, volume LogicalVolume) error
	// ensureUnused makes sure that nobody uses a volume that is to be removed, or gives ErrInUse.
	ensureUnused(ctx context.Context, report *Report, volume LogicalVolume) error
	// prepareRemoval makes a volume that was released ready for removal: no content can be
	// read once LVM has removed it, and removed was called.
	prepareRemoval(ctx context.Context, report *Report, volume LogicalVolume) error
	// afterRemove is called once LVM has removed volumes, before anything else is changed.
	afterRemove(report *Report, volumes []LogicalVolume) error
	// finishRemovals does what a process that was killed may have left for removed to do.
	finishRemovals(report *Report) error
	// copy copies the content of a volume that nobody writes to into one that is as
	// LVM made it, and no smaller.
	copy(ctx context.Context, report *Report, from, to LogicalVolume) error
}

// Activation is a volume's device.
type Activation struct {
	Device string // "" of a volume that is not active
	Size   int64  // of the device, in bytes
	// Mounts are where it is mounted, as this process sees it.
	Mounts []string
	// InUse tells that it is mounted anywhere or held by another driver. Who only has
	// its node open cannot be seen; Deactivate refuses then as well.
	InUse bool
}

// Capabilities returns what is possible here.
func (g *VolumeGroup) Capabilities() Capabilities { return g.system.activator.capabilities() }

// Activate makes a volume a device, as large as the volume is, and returns its
// node. One that is active keeps its device. It gives ErrMissingDevice if not all
// of it is there, and ErrUnsupported for one that takes device-mapper, which is
// not here.
func (g *VolumeGroup) Activate(ctx context.Context, name string) (string, error) {
	var device string
	err := g.withVolume(ctx, name, func(report *Report, volume LogicalVolume) (err error) {
		if volume.HasTags(unfinishedTag) {
			return ErrNotFound
		}
		device, err = g.system.activator.activate(ctx, report, volume)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("activate %s/%s: %w", g.name, name, err)
	}
	return device, nil
}

// Deactivate takes a volume's device away. When it returns nil there is none. It
// gives ErrInUse while anybody has the device open. A volume that is not there has
// none. A volume of the layout Snapshot is active as long as its origin is: for it,
// nil says that nobody has its device open.
func (g *VolumeGroup) Deactivate(ctx context.Context, name string) error {
	err := g.withVolume(ctx, name, func(report *Report, volume LogicalVolume) error {
		return g.system.activator.deactivate(ctx, report, volume)
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deactivate %s/%s: %w", g.name, name, err)
	}
	return nil
}

// Active returns a volume's device, read from the kernel.
func (g *VolumeGroup) Active(ctx context.Context, name string) (Activation, error) {
	report, volume, err := g.find(ctx, name)
	if err != nil {
		return Activation{}, err
	}
	device, err := g.system.activator.find(report, volume)
	if err != nil || device == "" {
		return Activation{}, err
	}
	return activationOf(device)
}

// Device returns a volume's device, or "" of one that is not active or whose disk
// is not there.
func (g *VolumeGroup) Device(ctx context.Context, name string) (string, error) {
	report, volume, err := g.find(ctx, name)
	if err != nil {
		return "", err
	}
	device, err := g.system.activator.find(report, volume)
	if errors.Is(err, ErrMissingDevice) {
		return "", nil
	}
	return device, err
}

// Devices returns the devices of all that are active, by their
// names, which costs about as much as Device. Volumes on a disk that is not there
// are left out.
func (g *VolumeGroup) Devices(ctx context.Context) (map[string]string, error) {
	report, err := g.Report(ctx)
	if err != nil {
		return nil, err
	}
	return g.system.activator.findAll(report)
}

// withVolume runs f on a volume that is locked. Other volumes may change meanwhile.
func (g *VolumeGroup) withVolume(ctx context.Context, name string, f func(*Report, LogicalVolume) error) error {
	if err := checkNames(name); err != nil {
		return err
	}
	leave, err := g.volumes.acquire(ctx, name)
	if err != nil {
		return err
	}
	defer leave()
	report, volume, err := g.find(ctx, name)
	if err != nil {
		return err
	}
	return f(report, volume)
}

// deactivateAll deactivates every volume.
func (g *VolumeGroup) deactivateAll(ctx context.Context) error {
	volumes, err := g.Report(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, each := range volumes.LogicalVolumes {
		failed = append(failed, g.Deactivate(ctx, each.Name))
	}
	return errors.Join(failed...)
}

// activationOf tells of a device that is there.
func activationOf(device string) (Activation, error) {
	size, err := blockdev.Size(device)
	if err != nil {
		return Activation{}, err
	}
	active := Activation{Device: device, Size: size}
	if active.Mounts, err = blockdev.MountPoints(device); err != nil {
		return Activation{}, err
	}
	active.InUse, err = blockdev.InUse(device)
	return active, err
}

// notInUse gives ErrInUse for a block device that is mounted, in any mount
// namespace, or held by another driver.
func notInUse(device string) error {
	inUse, err := blockdev.InUse(device)
	if inUse {
		return fmt.Errorf("%w: %s is mounted or held", ErrInUse, device)
	}
	return err
}
