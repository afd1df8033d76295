package nodefs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// MountOptions implements FS. A Memory knows only whether a mount is read-only.
func (m *Memory) MountOptions(name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.existing(name)
	if err != nil {
		return "", err
	}
	if here.mount.readOnly {
		return "ro", nil
	}
	return "rw", nil
}

// MountOptions implements FS. The options are those of the mount and of the file system.
func (r *Real) MountOptions(name string) (string, error) {
	place, _, err := r.resolveExisting(name)
	if err != nil {
		return "", err
	}
	rows, err := mountinfo.GetMounts(mountinfo.ParentsFilter(place))
	if err != nil {
		return "", fmt.Errorf("read the mount table: %w", err)
	}
	longest, options := -1, ""
	for _, row := range rows {
		if len(row.Mountpoint) < longest {
			continue
		}
		all := strings.Split(row.Options, ",")
		for option := range strings.SplitSeq(row.VFSOptions, ",") {
			if !slices.Contains(all, option) && (option != "rw" || !slices.Contains(all, "ro")) {
				all = append(all, option)
			}
		}
		longest, options = len(row.Mountpoint), strings.Join(all, ",")
	}
	return options, nil
}
