package lvm2

import (
	"errors"

	"github.com/volsim/volsim/internal/blockdev"
)

// signatureBytes is the size of the wiped start and end of a volume. File systems, partition tables
// and RAIDs have their signatures there.
const signatureBytes = 1 << 20

// hasUnzeroedDisks reports whether the free extents of any disk may hold old content.
func (s *System) hasUnzeroedDisks() bool {
	for _, disk := range s.Disks() {
		if !disk.Zeroed {
			return true
		}
	}
	return false
}

// wipe zeroes the extents of a volume before its removal, on disks where discarding may not zero.
func (s *System) wipe(report *Report, volume LogicalVolume) error {
	return s.eachExtent(report, volume, func(disk Disk, start, size int64) error {
		if disk.Zeroed {
			return nil
		}
		return zeroRange(disk.Device, start, size)
	})
}

// discard discards the extents of removed volumes before they are reused. On disks that are files
// this punches holes, so they read as zeros.
func (s *System) discard(report *Report, volumes []LogicalVolume) error {
	var failed []error
	for _, volume := range volumes {
		failed = append(failed, s.eachExtent(report, volume, discardOn))
	}
	return errors.Join(failed...)
}

// discardUnused discards all free extents of disks that are files. A process may have been killed
// between a removal and its discarding.
func (s *System) discardUnused(report *Report) error {
	var unused LogicalVolume
	for _, physical := range report.PhysicalVolumes {
		if disk, added := s.diskByName(physical.Name); added && disk.Zeroed && !physical.Missing {
			unused.Extents = append(unused.Extents, physical.Unused...)
		}
	}
	return s.discard(report, []LogicalVolume{unused})
}

// discardAll makes a disk that is a file a single hole, so that it can be added again. It reports
// false if the disk is no file or that fails. A process that is killed before that leaves a
// physical volume without a volume group, which can be added too.
func (s *System) discardAll(name string) bool {
	disk, _ := s.diskByName(name)
	if !disk.Zeroed {
		return false
	}
	size, err := blockdev.Size(disk.Device)
	return err == nil && discardRange(disk.Device, 0, size) == nil
}

func discardOn(disk Disk, start, size int64) error {
	err := discardRange(disk.Device, start, size)
	if err != nil && disk.Zeroed {
		return zeroRange(disk.Device, start, size)
	}
	return nil // not every disk supports it
}

// wipeEnds zeroes the start and the end of a contiguous volume, unless its disk reads as zeros.
func (s *System) wipeEnds(report *Report, volume LogicalVolume) error {
	return s.eachExtent(report, volume, func(disk Disk, start, size int64) error {
		if disk.Zeroed {
			return nil
		}
		length := min(signatureBytes, size)
		if err := zeroRange(disk.Device, start, length); err != nil {
			return err
		}
		return zeroRange(disk.Device, start+size-length, length)
	})
}

// eachExtent calls f for the runs of extents of a volume.
func (s *System) eachExtent(report *Report, volume LogicalVolume, f func(disk Disk, start, size int64) error) error {
	for _, run := range volume.Extents {
		physical, ok := report.disk(run.PhysicalVolume)
		disk, added := s.diskByName(run.PhysicalVolume)
		if !ok || !added {
			return ErrMissingDevice
		}
		if err := f(disk, physical.Start+run.Start*report.ExtentSize, run.Length*report.ExtentSize); err != nil {
			return err
		}
	}
	return nil
}
