package lvm2

import (
	"context"
	"fmt"
	"strconv"

	"github.com/volsim/volsim/internal/blockdev"
)

// mapper lets LVM make volumes devices, by the kernel's device-mapper.
type mapper struct{ system *System }

func (mapper) capabilities() Capabilities {
	return Capabilities{Layouts: []Layout{Linear, Striped, RAID1, ThinPool, Thin, Snapshot}, NonContiguous: true, Snapshots: true}
}

// createOptions lets LVM wipe the beginning of a new volume, which makes it active.
func (mapper) createOptions() []string { return nil }

// find returns the node below the System's directory, which it makes anew if it is gone.
func (mapper) find(_ *Report, volume LogicalVolume) (string, error) {
	if volume.major < 0 {
		return "", nil
	}
	wanted := blockdev.Number{Major: uint32(volume.major), Minor: uint32(volume.minor)}
	if is, err := blockdev.NumberOf(volume.node); err == nil && is == wanted {
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
		err = fmt.Errorf("lvchange said that %s is active, but it is not", volume.Name)
	}
	return device, err
}

// resize has nothing to do: lvextend does it.
func (mapper) resize(*Report, LogicalVolume) error { return nil }

// deactivate leaves a snapshot that takes up what its origin loses to its origin:
// LVM has both active, or neither.
func (a mapper) deactivate(ctx context.Context, report *Report, volume LogicalVolume) error {
	if volume.major < 0 || volume.Layout == Snapshot && !volume.open {
		return nil
	}
	if volume.Layout == Snapshot {
		return fmt.Errorf("%w: somebody has it open", ErrInUse)
	}
	_, err := a.system.lvm(ctx, "lvchange", "-q", "-y", "-an", report.Name+"/"+volume.Name)
	return err
}

// ensureUnused leaves the device: LVM refuses to remove one that anybody has open, too.
func (mapper) ensureUnused(_ context.Context, _ *Report, volume LogicalVolume) error {
	if volume.major < 0 || volume.Layout == ThinPool {
		return nil
	}
	return notInUse("/dev/dm-" + strconv.Itoa(volume.minor))
}

// prepareRemoval zeroes a volume through its device, where discarding, which LVM does, may
// not do it. A thin pool zeroes what it gives out by itself.
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

// afterRemove has nothing to do, nor settle: LVM discards.
func (mapper) afterRemove(*Report, []LogicalVolume) error { return nil }

func (mapper) finishRemovals(*Report) error { return nil }

func (a mapper) copy(ctx context.Context, report *Report, from, to LogicalVolume) error {
	return copyThroughDevices(ctx, a, report, from, to, to.Layout == Thin || !a.system.hasUnzeroedDisks())
}
