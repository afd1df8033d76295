package nodefs

import (
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"
)

// newMounter returns a mounter without systemd. mount.New would start each mount in a transient
// scope, which only helps a kubelet that restarts while FUSE daemons run.
func newMounter() mountutils.Interface {
	return syscallMounter{mountutils.NewWithoutSystemd("")}
}

// syscallMounter performs simple mounts by a system call, which takes a hundredth of the time of
// starting a program. Other mounts, and failed ones, go to mount(8) and umount(8). These support
// more and explain failures.
type syscallMounter struct{ mountutils.Interface }

// Mount implements mountutils.Interface.
func (m syscallMounter) Mount(source, target, fsType string, options []string) error {
	return m.MountSensitive(source, target, fsType, options, nil)
}

// MountSensitive implements mountutils.Interface.
func (m syscallMounter) MountSensitive(source, target, fsType string, options, sensitive []string) error {
	flags, data, plain := mountArguments(fsType, options)
	if plain && len(sensitive) == 0 && unix.Mount(source, target, fsType, flags, data) == nil {
		return nil
	}
	return m.Interface.MountSensitive(source, target, fsType, options, sensitive)
}

// UnmountWithForce implements mountutils.MounterForceUnmounter. A system call could block
// indefinitely.
func (m syscallMounter) UnmountWithForce(target string, limit time.Duration) error {
	if force, ok := m.Interface.(mountutils.MounterForceUnmounter); ok {
		return force.UnmountWithForce(target, limit)
	}
	return m.Interface.Unmount(target)
}

// Unmount implements mountutils.Interface.
func (m syscallMounter) Unmount(target string) error {
	if unix.Unmount(target, unix.UMOUNT_NOFOLLOW) == nil {
		return nil
	}
	return m.Interface.Unmount(target)
}

// syscallTypes are the file systems that the kernel mounts without a helper, and "" for a bind.
var syscallTypes = []string{"", "ext2", "ext3", "ext4", "xfs", "btrfs", tmpfsType}

// mountFlags are the options that the kernel takes as bits, and mountUnflags those that clear a
// bit.
var (
	mountFlags = map[string]uintptr{
		"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
		"sync":    unix.MS_SYNCHRONOUS,
		"dirsync": unix.MS_DIRSYNC, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME,
		"relatime":    unix.MS_RELATIME,
		"strictatime": unix.MS_STRICTATIME, "lazytime": unix.MS_LAZYTIME,
	}
	mountUnflags = map[string]uintptr{
		"rw": unix.MS_RDONLY, "suid": unix.MS_NOSUID, "dev": unix.MS_NODEV, "exec": unix.MS_NOEXEC,
		"async":    unix.MS_SYNCHRONOUS,
		"defaults": 0,
	}
	// dataOptions are the prefixes of the options that are passed to the file system.
	dataOptions = []string{
		"discard", "nodiscard", "nouuid", "norecovery", "data=", "commit=", "barrier", "nobarrier", "errors=",
		"compress", "subvol", "size=",
	}
)

// mountArguments returns the arguments of mount(2), and false if the mount needs mount(8).
func mountArguments(fsType string, options []string) (flags uintptr, data string, plain bool) {
	if fsType == "" {
		return unix.MS_BIND, "", slices.Equal(options, []string{"bind"})
	}
	if !slices.Contains(syscallTypes, fsType) {
		return 0, "", false
	}
	var forType []string
	for _, option := range options {
		switch {
		case mountFlags[option] != 0:
			flags |= mountFlags[option]
		case slices.ContainsFunc(dataOptions, func(begin string) bool { return strings.HasPrefix(option, begin) }):
			forType = append(forType, option)
		default:
			off, known := mountUnflags[option]
			if !known {
				return 0, "", false
			}
			flags &^= off
		}
	}
	return flags, strings.Join(forType, ","), true
}
