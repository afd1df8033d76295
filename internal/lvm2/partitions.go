package lvm2

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/volsim/volsim/internal/blockdev"
)

// partitionsMax is the number of partitions that the kernel supports on one disk.
const partitionsMax = 255

// partitions is the activator that makes an active volume a partition of its disk. Only the kernel
// knows the partition; nothing is written to the disk. A volume's partition is the one with the
// same start.
type partitions struct {
	system *System
	mu     *sync.Mutex // held while a number is chosen and used
	// cached holds the last known partition of a volume by its disk's device and start.
	cached *sync.Map
}

// partitionStart is the start of a partition.
type partitionStart struct {
	disk  string
	start int64
}

// partition is a partition that the kernel knows.
type partition struct {
	number      int
	device      string
	start, size int64 // in bytes, from the start of the disk
}

// place is the location of a volume on its disk.
type place struct {
	disk        Disk
	start, size int64 // in bytes, from the start of the disk
}

func (partitions) capabilities() Capabilities {
	return Capabilities{Layouts: []Layout{Linear}, ActiveMax: partitionsMax}
}

func (partitions) createOptions() []string {
	return []string{"-an", "-Zn", "-Wn", "--contiguous", "y"}
}

// place returns the location of a volume.
func (a partitions) place(report *Report, volume LogicalVolume) (place, error) {
	if volume.Layout != Linear {
		return place{}, fmt.Errorf("layout %s: %w", volume.Layout, ErrUnsupported)
	}
	if len(volume.Extents) != 1 {
		return place{}, fmt.Errorf("volume has %d segments: %w", len(volume.Extents), ErrUnsupported)
	}
	at := volume.Extents[0]
	physical, ok := report.disk(at.PhysicalVolume)
	disk, added := a.system.diskByName(at.PhysicalVolume)
	if !ok || !added {
		return place{}, ErrMissingDevice
	}
	return place{disk: disk, start: physical.Start + at.Start*report.ExtentSize, size: at.Length * report.ExtentSize},
		nil
}

// partition returns a volume's partition, if any, and all partitions of its disk.
func (a partitions) partition(at place) (own *partition, all []partition, err error) {
	all, err = partitionsOf(at.disk.Device)
	for i := range all {
		if all[i].start == at.start {
			own = &all[i]
			a.cached.Store(partitionStart{at.disk.Device, at.start}, own.device)
		}
	}
	return own, all, err
}

// findPartition returns a volume's partition, or nil.
func (a partitions) findPartition(at place) (*partition, error) {
	if device, ok := a.cached.Load(partitionStart{at.disk.Device, at.start}); ok {
		seen, err := partitionAt(device.(string))
		if err == nil && seen.start == at.start {
			return &seen, nil
		}
		a.cached.Delete(partitionStart{at.disk.Device, at.start})
	}
	own, _, err := a.partition(at)
	return own, err
}

func (a partitions) find(report *Report, volume LogicalVolume) (string, error) {
	at, err := a.place(report, volume)
	if errors.Is(err, ErrUnsupported) {
		return "", nil // it cannot have one
	}
	if err != nil {
		return "", err
	}
	own, err := a.findPartition(at)
	if err != nil || own == nil {
		return "", err
	}
	return own.device, nil
}

func (a partitions) findAll(report *Report) (map[string]string, error) {
	known := map[string]map[int64]string{} // by disk and start
	for _, physical := range report.PhysicalVolumes {
		disk, added := a.system.diskByName(physical.Name)
		if !added || physical.Missing {
			continue
		}
		all, err := partitionsOf(disk.Device)
		if err != nil {
			return nil, err
		}
		known[disk.Name] = map[int64]string{}
		for _, each := range all {
			known[disk.Name][each.start] = each.device
		}
	}
	found := map[string]string{}
	for _, volume := range report.LogicalVolumes {
		at, err := a.place(report, volume)
		if errors.Is(err, ErrUnsupported) || errors.Is(err, ErrMissingDevice) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if device := known[at.disk.Name][at.start]; device != "" {
			found[volume.Name] = device
		}
	}
	return found, nil
}

func (a partitions) activate(_ context.Context, report *Report, volume LogicalVolume) (string, error) {
	at, err := a.place(report, volume)
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	own, all, err := a.partition(at)
	if err != nil {
		return "", err
	}
	if own != nil {
		return own.device, a.resizeTo(at, *own)
	}
	number, err := freeNumber(all)
	if err != nil {
		return "", err
	}
	if err := addPartition(at.disk.Device, partition{number: number, start: at.start, size: at.size}); err != nil {
		return "", err
	}
	a.cached.Store(partitionStart{at.disk.Device, at.start}, partitionNode(at.disk.Device, number))
	own, err = a.findPartition(at)
	if err != nil {
		return "", err
	}
	if own == nil {
		return "", fmt.Errorf("partition %d of %s does not appear in sysfs", number, at.disk.Device)
	}
	return own.device, a.checkNode(*own, volume)
}

// checkNode checks that a new partition has a device node, and sets it read-only if the volume is.
func (a partitions) checkNode(own partition, volume LogicalVolume) error {
	if _, err := blockdev.NumberOf(own.device); err != nil {
		return fmt.Errorf("the new device has no node in /dev: is /dev a devtmpfs? %w", err)
	}
	if volume.ReadOnly {
		return blockdev.SetReadOnly(own.device, true)
	}
	return nil
}

func (a partitions) resize(report *Report, volume LogicalVolume) error {
	at, err := a.place(report, volume)
	if errors.Is(err, ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	own, err := a.findPartition(at)
	if err != nil || own == nil {
		return err
	}
	return a.resizeTo(at, *own)
}

// resizeTo gives a partition the size of its volume.
func (a partitions) resizeTo(at place, own partition) error {
	if own.size == at.size {
		return nil
	}
	own.size = at.size
	return resizePartition(at.disk.Device, own)
}

// deactivate removes all partitions on a volume's extents: its own, and any left by a volume that
// was removed manually. The kernel refuses to remove an open partition, so the check is atomic.
func (a partitions) deactivate(ctx context.Context, report *Report, volume LogicalVolume) error {
	at, err := a.place(report, volume)
	if errors.Is(err, ErrUnsupported) || errors.Is(err, ErrMissingDevice) {
		return nil // no disk, no partition
	}
	if err != nil {
		return err
	}
	all, err := partitionsOf(at.disk.Device)
	if err != nil {
		return err
	}
	for _, each := range all {
		if each.start < at.start+at.size && at.start < each.start+each.size {
			if err := removePartition(ctx, at.disk.Device, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// removePartitions removes all partitions of a disk.
func removePartitions(ctx context.Context, disk string) error {
	all, err := partitionsOf(disk)
	if err != nil {
		return err
	}
	for _, each := range all {
		if err := removePartition(ctx, disk, each); err != nil {
			return err
		}
	}
	return nil
}

// removePartition waits briefly for programs such as udev, which open each new device.
func removePartition(ctx context.Context, disk string, each partition) error {
	return retryBriefly(ctx.Done(), func() (done bool, err error) {
		err = deletePartition(disk, each.number)
		if !errors.Is(err, ErrInUse) {
			return true, err
		}
		return errors.Is(notInUse(each.device), ErrInUse), err
	})
}

func (a partitions) ensureUnused(ctx context.Context, report *Report, volume LogicalVolume) error {
	return a.deactivate(ctx, report, volume)
}

func (a partitions) prepareRemoval(_ context.Context, report *Report, volume LogicalVolume) error {
	return a.system.wipe(report, volume)
}

// afterRemove discards, because LVM does not: see withoutSysfs.
func (a partitions) afterRemove(report *Report, volumes []LogicalVolume) error {
	return a.system.discard(report, volumes)
}

func (a partitions) finishRemovals(report *Report) error { return a.system.discardUnused(report) }

// copy copies between files if both disks are files. Holes then stay holes, and the file system may
// share blocks. Otherwise it copies between devices.
func (a partitions) copy(ctx context.Context, report *Report, from, to LogicalVolume) error {
	source, err := a.place(report, from)
	if err != nil {
		return err
	}
	target, err := a.place(report, to)
	if err != nil {
		return err
	}
	if source.disk.Zeroed && target.disk.Zeroed {
		return copyRange(ctx, source.disk.Path, source.start, target.disk.Path, target.start, source.size)
	}
	return copyThroughDevices(ctx, a, report, from, to, false)
}

func freeNumber(taken []partition) (int, error) {
	for number := 1; number <= partitionsMax; number++ {
		if !slices.ContainsFunc(taken, func(p partition) bool { return p.number == number }) {
			return number, nil
		}
	}
	return 0, fmt.Errorf("%d volumes of one disk are active, the maximum", partitionsMax)
}
