package lvm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/lvm2"
)

// The tags of a logical volume. Tags of the driver begin with prefix; the text after a "=" is
// escaped.
const (
	prefix       = "volsim.csi."
	tagOwned     = prefix + "volume" // or a snapshot
	tagVersion   = prefix + "version="
	tagName      = prefix + "name="
	tagSource    = prefix + "source="
	tagGroup     = prefix + "group="
	tagGroupSize = prefix + "groupsize="
	tagParameter = prefix + "parameter."
	tagSetting   = prefix + "setting."
)

// stateVersion is the version of the tags that this package reads and writes. A volume without a
// version has version 1.
const stateVersion = "1"

// checkTags returns an error for a volume of the driver that this version has not written.
func checkTags(lv lvm2.LogicalVolume) error {
	if !lv.HasTags(tagOwned) {
		return nil
	}
	for _, tag := range lv.Tags {
		version, hasVersion := strings.CutPrefix(tag, tagVersion)
		text, hasSize := strings.CutPrefix(tag, tagGroupSize)
		size, err := strconv.Atoi(text)
		switch {
		case hasVersion && version != stateVersion:
			return fmt.Errorf("logical volume %s has state of version %q, want %s: "+
				"start the version of the driver that wrote it", lv.Name, version, stateVersion)
		case hasSize && (err != nil || size < 0):
			return fmt.Errorf("logical volume %s has the invalid tag %s: remove the tag with lvchange --deltag", lv.Name, tag)
		case strings.HasPrefix(tag, tagName) && strings.Contains(unescape(tag), "\x00"):
			return fmt.Errorf("logical volume %s has a name with a zero byte, in the tag %s: "+
				"remove the tag with lvchange --deltag", lv.Name, tag)
		}
	}
	return nil
}

// tagsFor returns the tags of a new volume.
func tagsFor(wanted blockcsi.VolumeSpec) []string {
	tags := []string{tagOwned, tagVersion + stateVersion, tagName + escape(wanted.Name)}
	if wanted.From != nil {
		tags = append(tags, tagSource+wanted.From.ID)
	}
	if wanted.Group != "" {
		tags = append(tags, tagGroup+wanted.Group, tagGroupSize+strconv.Itoa(wanted.GroupSize))
	}
	tags = append(tags, pairs(tagParameter, wanted.Parameters)...)
	return append(tags, pairs(tagSetting, wanted.Settings)...)
}

func pairs(before string, all map[string]string) []string {
	var tags []string
	for key, value := range all {
		tags = append(tags, before+escape(key)+"="+escape(value))
	}
	slices.Sort(tags)
	return tags
}

// volumeOf converts a logical volume of the driver.
func volumeOf(report *lvm2.Report, lv lvm2.LogicalVolume) blockcsi.Volume {
	volume := blockcsi.Volume{ID: lv.Name, SizeBytes: lv.Size, Created: lv.Created, Trouble: troubleOf(report, lv)}
	for _, tag := range lv.Tags {
		switch {
		case strings.HasPrefix(tag, tagName):
			volume.Name = unescape(tag[len(tagName):])
		case strings.HasPrefix(tag, tagSource):
			volume.Source = tag[len(tagSource):]
		case strings.HasPrefix(tag, tagGroup):
			volume.Group = tag[len(tagGroup):]
		case strings.HasPrefix(tag, tagGroupSize):
			volume.GroupSize, _ = strconv.Atoi(tag[len(tagGroupSize):]) // checkTags has parsed it
		case strings.HasPrefix(tag, tagParameter):
			volume.Parameters = addPair(volume.Parameters, tag[len(tagParameter):])
		case strings.HasPrefix(tag, tagSetting):
			volume.Settings = addPair(volume.Settings, tag[len(tagSetting):])
		}
	}
	volume.Discard = discards(lv.Layout, volume.Settings)
	return volume
}

func addPair(all map[string]string, pair string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	key, value, _ := strings.Cut(pair, "=")
	all[unescape(key)] = unescape(value)
	return all
}

// troubleOf returns a volume's problem and how to fix it, or "".
func troubleOf(report *lvm2.Report, lv lvm2.LogicalVolume) string {
	const invalid = 'I' // the fifth letter of a thick snapshot without room
	switch {
	case lv.Layout == lvm2.Snapshot && len(lv.Attributes) > 4 && lv.Attributes[4] == invalid:
		return "the snapshot has no room left and has lost its content: delete it"
	case lv.Layout == lvm2.Thin && lv.Pool == thinPool && isFull(report):
		return "the thin pool is full, so writes to it fail: delete volumes or snapshots, or enlarge the pool"
	case lv.Health == "":
		return ""
	case lv.Health == "partial":
		return "a disk of the volume is missing: bring the disk back"
	}
	return fmt.Sprintf("LVM reports %q", lv.Health)
}

const tagCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-/:"

// escape encodes a text in the characters that LVM allows in a tag. Any other byte becomes & and
// two hex digits.
func escape(text string) string {
	var all strings.Builder
	for i := range len(text) {
		if strings.IndexByte(tagCharacters, text[i]) >= 0 {
			all.WriteByte(text[i])
		} else {
			fmt.Fprintf(&all, "&%02x", text[i])
		}
	}
	return all.String()
}

// unescape undoes escape.
func unescape(tag string) string {
	var all []byte
	for i := 0; i < len(tag); i++ {
		var one byte
		if tag[i] == '&' && i+2 < len(tag) {
			if _, err := fmt.Sscanf(tag[i+1:i+3], "%02x", &one); err == nil {
				all, i = append(all, one), i+2
				continue
			}
		}
		all = append(all, tag[i])
	}
	return string(all)
}
