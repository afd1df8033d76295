package nodefs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Mounts that the kernel can do directly, and mounts that need mount(8).
func TestMountArguments(t *testing.T) {
	tests := []struct {
		name, fsType string
		options      []string
		flags        uintptr
		data         string
		plain        bool
	}{
		{name: "ext4", fsType: "ext4", plain: true},
		{
			name: "as mount-utils asks", fsType: "ext4", options: []string{"discard", "defaults"}, data: "discard",
			plain: true,
		},
		{
			name: "flags and the file system's own", fsType: "xfs", options: []string{
				"ro", "nouuid", "noatime", "norecovery",
			},
			flags: unix.MS_RDONLY | unix.MS_NOATIME, data: "nouuid,norecovery", plain: true,
		},
		{
			name: "the last one counts", fsType: "ext4", options: []string{"ro", "noexec", "rw", "exec", "nosuid"},
			flags: unix.MS_NOSUID, plain: true,
		},
		{
			name: "btrfs", fsType: "btrfs", options: []string{"discard=async", "compress=zstd"},
			data: "discard=async,compress=zstd", plain: true,
		},
		{name: "bind", options: []string{"bind"}, flags: unix.MS_BIND, plain: true},
		{name: "bind, read-only: two steps", options: []string{"bind", "ro"}, flags: unix.MS_BIND},
		{name: "an option that is mount(8)'s", fsType: "ext4", options: []string{"X-mount.mkdir"}},
		{name: "unknown option", fsType: "ext4", options: []string{"nonsense=1"}},
		{name: "a file system with a program of its own", fsType: "nfs"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			flags, data, plain := mountArguments(test.fsType, test.options)
			if flags != test.flags && plain || data != test.data || plain != test.plain {
				t.Errorf("%#x %q %t, want %#x %q %t", flags, data, plain, test.flags, test.data, test.plain)
			}
		})
	}
}
