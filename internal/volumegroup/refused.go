package volumegroup

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/volsim/volsim/internal/lvm2"
)

// What LVM says about a disk that is not empty.
var (
	signatureFound = regexp.MustCompile(`(\S+) signature detected`)
	groupFound     = regexp.MustCompile(`already in volume group '([^']+)'|volume group ([^ ,]+), system ID`)
)

// refusal returns what was found on a disk, without LVM's names of it.
func (l *LVM) refusal(err error) string {
	text := err.Error()
	if found := groupFound.FindStringSubmatch(text); found != nil {
		name := found[1] + found[2]
		if errors.Is(err, lvm2.ErrForeign) {
			return fmt.Sprintf("belongs to volume group %s of another system", name)
		}
		return "belongs to volume group " + strings.TrimPrefix(name, l.cfg.Prefix)
	}
	if found := signatureFound.FindStringSubmatch(text); found != nil {
		return "is not empty: has a signature of " + found[1]
	}
	if errors.Is(err, lvm2.ErrUnknownData) {
		return "is not empty: " + lvm2.ErrUnknownData.Error()
	}
	return text
}

// otherPath returns the path under which a disk was added, other than the given one; "" if there is none.
func (l *LVM) otherPath(disk, name string) string {
	for _, path := range slices.Sorted(maps.Keys(l.disks)) {
		if path != name && l.disks[path] == disk {
			return path
		}
	}
	return ""
}
