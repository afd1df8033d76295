package csireq

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The prefixes of the IDs of volumes, snapshots and groups of snapshots.
const (
	volumePrefix   = "vol-"
	SnapshotPrefix = "snap-"
	groupPrefix    = "group-"

	idDigits = 16
)

// VolumeID returns the ID of the volume with a name: "vol-" and the first 16 hex digits of the
// name's SHA-256. So CreateVolume finds an existing volume without a record of names. It does not
// handle two names that share an ID.
func VolumeID(name string) string { return volumePrefix + nameDigits(name) }

// SnapshotID is VolumeID for a snapshot, with the prefix "snap-".
func SnapshotID(name string) string { return SnapshotPrefix + nameDigits(name) }

// GroupID is VolumeID for a group of snapshots, with the prefix "group-".
func GroupID(name string) string { return groupPrefix + nameDigits(name) }

func nameDigits(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])[:idDigits]
}

// IsVolumeID reports whether id has the form that VolumeID returns. Such an ID is safe as a file
// name.
func IsVolumeID(id string) bool { return isID(id, volumePrefix) }

// IsSnapshotID reports whether id has the form that SnapshotID returns.
func IsSnapshotID(id string) bool { return isID(id, SnapshotPrefix) }

// IsGroupID reports whether id has the form that GroupID returns.
func IsGroupID(id string) bool { return isID(id, groupPrefix) }

func isID(id, prefix string) bool {
	digits, ok := strings.CutPrefix(id, prefix)
	return ok && len(digits) == idDigits && strings.Trim(digits, "0123456789abcdef") == ""
}

// Page returns the page of the sorted IDs for ListVolumes or ListSnapshots, and the token of the
// next page. A token is the first ID of its page, so volumes created or deleted meanwhile do not
// shift it. A token that is not an ID is Aborted, a negative entriesMax InvalidArgument; 0 is no
// maximum.
func Page(ids []string, token string, entriesMax int32) (page []string, next string, err error) {
	if entriesMax < 0 {
		return nil, "", status.Error(codes.InvalidArgument, "max_entries is negative")
	}
	if token != "" {
		if !IsVolumeID(token) && !IsSnapshotID(token) {
			return nil, "", status.Errorf(codes.Aborted, "starting_token %q is unknown: list from the start", token)
		}
		from, _ := slices.BinarySearch(ids, token)
		ids = ids[from:]
	}
	if entriesMax > 0 && len(ids) > int(entriesMax) {
		return ids[:entriesMax], ids[entriesMax], nil
	}
	return ids, "", nil
}
