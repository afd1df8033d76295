package lvm

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/lvm2"
)

func TestTagsOfAnotherVersionAreRefused(t *testing.T) {
	for tag, want := range map[string]string{
		tagVersion + "2":           `version "2", want 1`,
		tagVersion:                 `version "", want 1`,
		tagGroupSize + "-1":        "invalid tag",
		tagGroupSize + "many":      "invalid tag",
		tagName + escape("a\x00b"): "zero byte",
		tagVersion + "1":           "",
		tagGroupSize + "2":         "",
		tagName + escape("a b"):    "",
		"volsim.csi.unknown":       "",
	} {
		lv := lvm2.LogicalVolume{Name: "vol-0123456789abcdef", Tags: []string{tagOwned, tag}}
		report := &lvm2.Report{LogicalVolumes: []lvm2.LogicalVolume{lv}}
		err := checkState(report, blockcsi.AttachmentRecords{Dir: t.TempDir()})
		if want == "" && err != nil {
			t.Errorf("%s: %v", tag, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), lv.Name)) {
			t.Errorf("%s: got %v, want an error with %q and the volume", tag, err, want)
		}
	}
	foreign := lvm2.LogicalVolume{Name: "other", Tags: []string{tagVersion + "2"}}
	if err := checkTags(foreign); err != nil {
		t.Errorf("a volume that is not the driver's: %v", err)
	}
}

func TestNewVolumesHaveAVersion(t *testing.T) {
	lv := lvm2.LogicalVolume{Name: "vol-0123456789abcdef", Tags: tagsFor(blockcsi.VolumeSpec{Name: "data"})}
	if !lv.HasTags(tagVersion + "1") {
		t.Errorf("tags %q", lv.Tags)
	}
	if err := checkTags(lv); err != nil {
		t.Error(err)
	}
}

// FuzzTags checks that a name is read from the tags of a volume as it was written, with characters that LVM allows.
func FuzzTags(f *testing.F) {
	f.Add("data", "key", "value")
	f.Add("a&b=c", "=", "&")
	f.Add("\xff\n", "&0", "%")
	f.Fuzz(func(t *testing.T, name, key, value string) {
		spec := blockcsi.VolumeSpec{Name: name, Parameters: map[string]string{key: value}}
		lv := lvm2.LogicalVolume{Name: "vol-0123456789abcdef", Tags: tagsFor(spec)}
		for _, tag := range lv.Tags {
			if strings.Trim(tag, tagCharacters+"&=") != "" {
				t.Fatalf("%q: LVM does not allow the tag %q", name, tag)
			}
		}
		if err := checkTags(lv); (err != nil) != strings.Contains(name, "\x00") {
			t.Fatalf("%q: %v", name, err)
		}
		if got := volumeOf(&lvm2.Report{}, lv); got.Name != name || got.Parameters[key] != value {
			t.Fatalf("%q, %q=%q is read as %+v", name, key, value, got)
		}
	})
}
