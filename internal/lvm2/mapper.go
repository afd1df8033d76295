package lvm2

import (
	"context"
	"fmt"
	"strconv"

	"github.com/volsim/volsim/internal/blockdev"
)

// mapper is the activator that uses the kernel's device-mapper.
type mapper struct{ system *System }

func (mapper) capabilities() Capabilities {
	return Capabilities{
		Layouts: []Layout{Linear, Striped, RAID1, ThinPool, Thin, Snapshot}, NonContiguous: true, Snapshots: true,
	}
}

// createOptions returns none: LVM wipes the start of a new volume, which activates it.
func (mapper) createOptions() []string { return nil }

// find returns the device node below the System's directory. It recreates a missing one.
func (mapper) find(_ *Report, volume LogicalVolume) (string, error) {
	if volume.major < 0 {
		return "", nil
	}
	wanted := blockdev.Number{Major: uint32(volume.major), Minor: uint32(volume.minor)}
	if number, err := blockdev.NumberOf(volume.node); err == nil && number == wanted {
		return volume.node, nil
	}
	return volume.node, remakeNode(volume.node, wanted)
}

func (a mapper) findAll(report *Report) (map[string]string, error) {
	found := map[string]string{}
	for _, volume := range report.LogicalVolumes {
		device, err := a.find(report, volume)
		if err != nil {
			return nil, err
		}
		if device != "" {
			found[volume.Name] = device
		}
	}
	return found, nil
}

func (a mapper) activate(ctx context.Context, report *Report, volume LogicalVolume) (string, error) {
	if volume.major < 0 {
		if _, err := a.system.lvm(ctx, "lvchange", "-q", "-y", "-ay", "-K", report.Name+"/"+volume.Name); err != nil {
			return "", err
		}
		after, err := a.system.report(ctx, report.Name)
		if err != nil {
			return "", err
		}
		volume, _ = after.Find(volume.Name)
	}
	device, err := a.find(report, volume)
	if err == nil && device == "" {
		err = fmt.Errorf("lvchange did not activate %s", volume.Name)
	}
	return device, err
}

// resize does nothing, because lvextend resizes the device.
func (mapper) resize(*Report, LogicalVolume) error { return nil }

// deactivate keeps a thick snapshot active, because LVM activates it together with its origin.
func (a mapper) deactivate(ctx context.Context, report *Report, volume LogicalVolume) error {
	if volume.major < 0 || volume.Layout == Snapshot && !volume.open {
		return nil
	}
	if volume.Layout == Snapshot {
		return fmt.Errorf("%w: it is open", ErrInUse)
	}
	_, err := a.system.lvm(ctx, "lvchange", "-q", "-y", "-an", report.Name+"/"+volume.Name)
	return err
}

// ensureUnused keeps the device: LVM also refuses to remove an open one.
func (mapper) ensureUnused(_ context.Context, _ *Report, volume LogicalVolume) error {
	if volume.major < 0 || volume.Layout == ThinPool {
		return nil
	}
	return notInUse("/dev/dm-" + strconv.Itoa(volume.minor))
}

// prepareRemoval zeroes a volume through its device if LVM's discarding may not. A thin pool zeroes
// the blocks that it allocates.
func (a mapper) prepareRemoval(ctx context.Context, report *Report, volume LogicalVolume) error {
	if !a.system.hasUnzeroedDisks() || volume.Layout == Thin || volume.Layout == ThinPool || volume.Layout == Snapshot {
		return nil
	}
	device, err := a.activate(ctx, report, volume)
	if err != nil {
		return err
	}
	return zeroRange(device, 0, volume.Size)
}

// afterRemove and finishRemovals do nothing, because LVM discards.
func (mapper) afterRemove(*Report, []LogicalVolume) error { return nil }

func (mapper) finishRemovals(*Report) error { return nil }

func (a mapper) copy(ctx context.Context, report *Report, from, to LogicalVolume) error {
	return copyThroughDevices(ctx, a, report, from, to, to.Layout == Thin || !a.system.hasUnzeroedDisks())
}
