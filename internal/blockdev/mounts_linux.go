package blockdev

import (
	"fmt"
	"os"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Mounts returns the mounts of the file system on a device. A btrfs file system has a device number
// of its own, so it is matched by its source device. For one over several devices that is the
// first.
func Mounts(device string) ([]*mountinfo.Info, error) {
	number, err := NumberOf(device)
	if err != nil {
		return nil, err
	}
	rows, err := mountinfo.GetMounts(func(row *mountinfo.Info) (skip, stop bool) {
		if row.FSType == "btrfs" {
			source, err := NumberOf(row.Source)
			return err != nil || source != number, false
		}
		return row.Major != int(number.Major) || row.Minor != int(number.Minor), false
	})
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return rows, nil
}

// openMountRoot opens the root of one of several mounts. Another mount may hide some of them, so it
// compares the mount ID of the opened root.
func openMountRoot(rows []*mountinfo.Info) (*os.File, error) {
	var failed error
	for _, row := range rows {
		file, err := os.Open(row.Mountpoint)
		if err != nil {
			failed = err
			continue
		}
		var info unix.Statx_t
		err = unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &info)
		if err == nil && info.Mnt_id == uint64(row.ID) {
			return file, nil
		}
		file.Close()
		failed = fmt.Errorf("another file system is mounted over %s", row.Mountpoint)
	}
	return nil, failed
}
