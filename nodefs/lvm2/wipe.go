package lvm2

// endsSize is how much of a volume's beginning and end is wiped: file systems,
// tables of partitions and RAIDs keep their signatures there.
const endsSize = 1 << 20

// hasUnwiped tells whether there is any disk whose free extents may hold old content.
func (s *System) hasUnwiped() bool {
	for _, disk := range s.Disks() {
		if !disk.Zeroed {
			return true
		}
	}
	return false
}

// wipe makes the extents of a volume read as zeros, and gives what they take up
// back to what their disks are on, where that can be. For disks that are files
// discarding does both, since it punches holes. Without device-mapper LVM does not
// discard: see withoutSystem.
func (s *System) wipe(report *Report, volume LogicalVolume) error {
	return s.eachRun(report, volume, func(disk Disk, start, size int64) error {
		if disk.Zeroed {
			if discardRange(disk.Device, start, size) == nil {
				return nil
			}
			return zeroRange(disk.Device, start, size)
		}
		if err := zeroRange(disk.Device, start, size); err != nil {
			return err
		}
		_ = discardRange(disk.Device, start, size) // not every disk can
		return nil
	})
}

// wipeEnds zeroes the beginning and the end of a volume that lies in one piece,
// unless it is on a disk that reads as zeros.
func (s *System) wipeEnds(report *Report, volume LogicalVolume) error {
	return s.eachRun(report, volume, func(disk Disk, start, size int64) error {
		if disk.Zeroed {
			return nil
		}
		length := min(endsSize, size)
		if err := zeroRange(disk.Device, start, length); err != nil {
			return err
		}
		return zeroRange(disk.Device, start+size-length, length)
	})
}

// eachRun calls f for the runs of a volume.
func (s *System) eachRun(report *Report, volume LogicalVolume, f func(disk Disk, start, size int64) error) error {
	for _, run := range volume.Extents {
		physical, ok := report.disk(run.PhysicalVolume)
		disk, added := s.diskNamed(run.PhysicalVolume)
		if !ok || !added {
			return ErrMissingDevice
		}
		if err := f(disk, physical.Start+run.Start*report.ExtentSize, run.Length*report.ExtentSize); err != nil {
			return err
		}
	}
	return nil
}
