package lvm2

import (
	"context"
	"errors"
	"fmt"

	"github.com/volsim/volsim/internal/blockdev"
)

// Capabilities describes what a mode supports.
type Capabilities struct {
	// Layouts are the layouts that can be created.
	Layouts []Layout
	// NonContiguous means that a volume may have several segments, so it can grow wherever there
	// are free extents.
	NonContiguous bool
	// Snapshots means that a snapshot shares unchanged data with its origin. Otherwise it is a
	// copy.
	Snapshots bool
	// ActiveMax is the maximum number of active volumes on one disk; 0 means no limit.
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

// activator implements a mode. The caller holds the locks of the volumes, so they have not changed
// since the report.
type activator interface {
	capabilities() Capabilities
	// createOptions returns additional arguments of lvcreate.
	createOptions() []string
	// find returns a volume's device, or "" if the volume is not active.
	find(report *Report, volume LogicalVolume) (string, error)
	// findAll returns the devices of all active volumes by name. Volumes on a missing disk are
	// omitted.
	findAll(report *Report) (map[string]string, error)
	// activate ensures that a volume has a device of the volume's size.
	activate(ctx context.Context, report *Report, volume LogicalVolume) (string, error)
	// resize sets the size of an active volume's device to that of the volume.
	resize(report *Report, volume LogicalVolume) error
	// deactivate removes a volume's device, or returns ErrInUse.
	deactivate(ctx context.Context, report *Report, volume LogicalVolume) error
	// ensureUnused returns ErrInUse if a volume that will be removed is in use.
	ensureUnused(ctx context.Context, report *Report, volume LogicalVolume) error
	// prepareRemoval ensures that no content of an unused volume can be read after LVM has removed
	// it and afterRemove was called.
	prepareRemoval(ctx context.Context, report *Report, volume LogicalVolume) error
	// afterRemove is called after LVM has removed volumes, before anything else changes.
	afterRemove(report *Report, volumes []LogicalVolume) error
	// finishRemovals completes what a killed process may have left for afterRemove.
	finishRemovals(report *Report) error
	// copy copies the content of a volume without writers to a new volume that is at least as
	// large.
	copy(ctx context.Context, report *Report, from, to LogicalVolume) error
}

// Activation describes a volume's device.
type Activation struct {
	Device string // "" if the volume is not active
	Size   int64  // of the device, in bytes
	// Mounts are the paths at which the device is mounted, as this process sees it.
	Mounts []string
	// InUse means that the device is mounted anywhere or held by another driver. A process that
	// only has the device open is not visible, but Deactivate fails then too.
	InUse bool
}

// Capabilities returns what this System supports.
func (g *VolumeGroup) Capabilities() Capabilities { return g.system.activator.capabilities() }

// Activate ensures that a volume has a device of the volume's size, and returns the device node. An
// active volume keeps its device. Activate returns ErrMissingDevice if a disk of the volume is
// missing, and ErrUnsupported if the volume needs device-mapper and it is not available.
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

// Deactivate removes a volume's device. It returns ErrInUse while the device is open. A missing
// volume is not an error. A volume of the layout Snapshot is active as long as its origin is; for
// it, nil means that its device is not open.
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

// Active returns a volume's device as the kernel reports it.
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

// Device returns a volume's device, or "" if it is not active or its disk is missing.
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

// Devices returns the devices of all active volumes by name. It costs about as much as Device.
// Volumes on a missing disk are omitted.
func (g *VolumeGroup) Devices(ctx context.Context) (map[string]string, error) {
	report, err := g.Report(ctx)
	if err != nil {
		return nil, err
	}
	return g.system.activator.findAll(report)
}

// withVolume runs f while the volume is locked. Other volumes may change meanwhile.
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

// activationOf returns the Activation of an existing device.
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

// notInUse returns ErrInUse for a block device that is mounted, in any mount namespace, or held by
// another driver.
func notInUse(device string) error {
	inUse, err := blockdev.InUse(device)
	if inUse {
		return fmt.Errorf("%w: %s is mounted or held", ErrInUse, device)
	}
	return err
}
