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

// zero makes the extents of a volume read as zeros on those disks where LVM's
// discarding may not do it. For disks that are files discarding punches holes.
func (s *System) zero(report *Report, volume LogicalVolume) error {
	return s.eachRun(report, volume, func(disk Disk, start, size int64) error {
		return zeroRange(disk.Device, start, size)
	})
}

// wipeEnds zeroes the beginning and the end of a volume that lies in one piece.
func (s *System) wipeEnds(report *Report, volume LogicalVolume) error {
	return s.eachRun(report, volume, func(disk Disk, start, size int64) error {
		length := min(endsSize, size)
		if err := zeroRange(disk.Device, start, length); err != nil {
			return err
		}
		return zeroRange(disk.Device, start+size-length, length)
	})
}

// eachRun calls f for the runs of a volume on disks that may hold old content.
func (s *System) eachRun(report *Report, volume LogicalVolume, f func(disk Disk, start, size int64) error) error {
	for _, run := range volume.Extents {
		physical, ok := report.disk(run.PhysicalVolume)
		disk, added := s.diskNamed(run.PhysicalVolume)
		if !ok || !added {
			return ErrMissingDevice
		}
		if disk.Zeroed {
			continue
		}
		if err := f(disk, physical.Start+run.Start*report.ExtentSize, run.Length*report.ExtentSize); err != nil {
			return err
		}
	}
	return nil
}
