package lvm2

import (
	"errors"

	"github.com/volsim/volsim/internal/blockdev"
)

// signatureBytes is how much of a volume's beginning and end is wiped: file systems,
// tables of partitions and RAIDs keep their signatures there.
const signatureBytes = 1 << 20

// hasUnzeroedDisks tells whether there is any disk whose free extents may hold old content.
func (s *System) hasUnzeroedDisks() bool {
	for _, disk := range s.Disks() {
		if !disk.Zeroed {
			return true
		}
	}
	return false
}

// wipe makes the extents of a volume that is to be removed read as zeros on those disks
// where discarding may not do it.
func (s *System) wipe(report *Report, volume LogicalVolume) error {
	return s.eachExtent(report, volume, func(disk Disk, start, size int64) error {
		if disk.Zeroed {
			return nil
		}
		return zeroRange(disk.Device, start, size)
	})
}

// discard gives what the extents of volumes took up, that were removed and are in
// nobody's hands yet, back to what their disks are on. On disks that are files they
// read as zeros from then on, since that punches holes.
func (s *System) discard(report *Report, volumes []LogicalVolume) error {
	var failed []error
	for _, volume := range volumes {
		failed = append(failed, s.eachExtent(report, volume, discardOn))
	}
	return errors.Join(failed...)
}

// discardUnused does this to all that is free of disks that are files: a process may
// have been killed between a removal and its discarding.
func (s *System) discardUnused(report *Report) error {
	var unused LogicalVolume
	for _, physical := range report.PhysicalVolumes {
		if disk, added := s.diskByName(physical.Name); added && disk.Zeroed && !physical.Missing {
			unused.Extents = append(unused.Extents, physical.Unused...)
		}
	}
	return s.discard(report, []LogicalVolume{unused})
}

// discardAll makes a disk that is a file a single hole, which may be added again; false if it
// is none, or that cannot be done. A process that is killed before leaves a physical
// volume of nobody's, which may be, too.
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
	return nil // not every disk can
}

// wipeEnds zeroes the beginning and the end of a volume that lies in one piece,
// unless it is on a disk that reads as zeros.
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

// eachExtent calls f for the runs of a volume.
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
