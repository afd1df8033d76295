package csireq

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What the ids of volumes, snapshots and groups of snapshots begin with.
const (
	volumePrefix   = "vol-"
	SnapshotPrefix = "snap-"
	groupPrefix    = "group-"

	idDigits = 16
)

// VolumeID returns the id of the volume with a name: "vol-" and the first 16
// hex digits of the name's SHA-256. So CreateVolume finds again what it made,
// with no record of names. Two names sharing an id is not provided for.
func VolumeID(name string) string { return volumePrefix + nameDigits(name) }

// SnapshotID is VolumeID for a snapshot, "snap-".
func SnapshotID(name string) string { return SnapshotPrefix + nameDigits(name) }

// GroupID is VolumeID for a group of snapshots, "group-".
func GroupID(name string) string { return groupPrefix + nameDigits(name) }

func nameDigits(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])[:idDigits]
}

// IsVolumeID tells whether id is of the kind that VolumeID returns, which also
// makes it safe as a file name.
func IsVolumeID(id string) bool { return isID(id, volumePrefix) }

// IsSnapshotID is IsVolumeID for SnapshotID.
func IsSnapshotID(id string) bool { return isID(id, SnapshotPrefix) }

// IsGroupID is IsVolumeID for GroupID.
func IsGroupID(id string) bool { return isID(id, groupPrefix) }

func isID(id, prefix string) bool {
	digits, ok := strings.CutPrefix(id, prefix)
	return ok && len(digits) == idDigits && strings.Trim(digits, "0123456789abcdef") == ""
}

// Page returns the part of the sorted ids that ListVolumes or ListSnapshots answers with,
// and the token of the next part. A token is the first id of its part, so that
// volumes made or deleted meanwhile shift nothing. It gives Aborted for a token
// that is no id and InvalidArgument for a negative entriesMax; 0 is no maximum.
func Page(ids []string, token string, entriesMax int32) (page []string, next string, err error) {
	if entriesMax < 0 {
		return nil, "", status.Error(codes.InvalidArgument, "max_entries is negative")
	}
	if token != "" {
		if !IsVolumeID(token) && !IsSnapshotID(token) {
			return nil, "", status.Errorf(codes.Aborted, "starting_token %q is none of ours: list from the start", token)
		}
		from, _ := slices.BinarySearch(ids, token)
		ids = ids[from:]
	}
	if entriesMax > 0 && len(ids) > int(entriesMax) {
		return ids[:entriesMax], ids[entriesMax], nil
	}
	return ids, "", nil
}
