package csireq

import (
	"slices"
	"strings"
	"unicode"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bannedFlags are the names of the options with which mount(8) does something else than mount the
// whole file system of a volume, or changes the propagation on which a kubelet relies. The options
// suid, dev and exec are not among them: they are its defaults, so they permit nothing more.
var bannedFlags = []string{
	"bind", "rbind", "move", "remount", "loop", "offset", "sizelimit", "encryption", "X-mount.subdir",
	"shared", "rshared", "slave", "rslave", "private", "rprivate", "unbindable", "runbindable",
}

// MountFlags returns the mount flags of a capability, one option each. As in mount(8), a flag may
// hold several options, separated by commas outside of quotation marks.
func MountFlags(capability *csi.VolumeCapability) []string {
	var all []string
	for _, flag := range capability.GetMount().GetMountFlags() {
		all = append(all, splitOptions(flag)...)
	}
	return all
}

func splitOptions(flag string) []string {
	quoted := false
	return strings.FieldsFunc(flag, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ',' && !quoted
	})
}

// checkMountFlags returns InvalidArgument for flags that no volume is mounted with. Any other flag
// is left to the file system, which refuses what it does not know. Errors name the option without
// its value, because values may be secret.
func checkMountFlags(capability *csi.VolumeCapability) error {
	given := capability.GetMount().GetMountFlags()
	if bytes := len(strings.Join(given, ",")); bytes > mountFlagsBytesMax {
		return status.Errorf(codes.InvalidArgument, "mount_flags has %d bytes, want at most %d", bytes,
			mountFlagsBytesMax)
	}
	if slices.ContainsFunc(given, func(flag string) bool { return strings.ContainsFunc(flag, unicode.IsControl) }) {
		return status.Error(codes.InvalidArgument, "mount_flags contains a control character")
	}
	if slices.ContainsFunc(given, func(flag string) bool { return strings.Count(flag, `"`)%2 != 0 }) {
		return status.Error(codes.InvalidArgument, "a mount flag has an unbalanced quotation mark, which would include the next one")
	}
	options := MountFlags(capability)
	for _, option := range options {
		name, _, _ := strings.Cut(option, "=")
		if slices.Contains(bannedFlags, name) {
			return status.Errorf(codes.InvalidArgument, "mount flag %q is not allowed for a volume", name)
		}
	}
	if slices.Contains(options, "ro") && slices.Contains(options, "rw") {
		return status.Error(codes.InvalidArgument, "mount flags ro and rw are mutually exclusive")
	}
	return nil
}
