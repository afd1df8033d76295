//go:build linux

package lvm2

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
)

// onDisks is a System without device-mapper, with a volume group g on two disks.
type onDisks struct {
	*testing.T
	*System
	dir     string
	group   *VolumeGroup
	onBegin func() // called when a command starts; may be nil
}

func newOnDisks(t *testing.T) *onDisks {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: loop devices and lvm")
	}
	if _, err := os.Stat(loopdev.ControlNode); err != nil {
		t.Skipf("needs loop devices: %v", err)
	}
	if _, err := findCommand(); err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat("/dev/mapper/control"); err == nil && testing.Short() {
		t.Skip("short: independent of device-mapper, and a guest is slow")
	}
	d := &onDisks{T: t, dir: t.TempDir()}
	var err error
	d.System, err = Open(Config{
		Directory: filepath.Join(d.dir, "lvm"), SystemID: "volsim-test", Mode: Partitions, MetadataSize: 512 << 10,
	})
	testcheck.NoError(d, err)
	t.Cleanup(func() {
		t.Helper()
		for _, each := range d.Disks() {
			testcheck.NoError(d, unbindDisk(context.WithoutCancel(t.Context()), each.Path))
		}
		testcheck.NoError(d, d.Close())
	})
	for _, name := range []string{"a", "b"} {
		_, err := d.AddFile(t.Context(), filepath.Join(d.dir, name), 256<<20)
		testcheck.NoError(d, err)
	}
	d.group, err = d.CreateVolumeGroup(t.Context(), GroupSpec{
		Name: "g", Disks: []string{"pv0", "pv1"}, Tags: []string{"z", "a"},
	})
	testcheck.NoError(d, err)
	return d
}

func (d *onDisks) lvm(arguments ...string) {
	d.Helper()
	_, err := d.System.lvm(d.Context(), arguments...)
	testcheck.NoError(d, err)
}

// wantSame compares the parsed metadata with LVM's report.
func (d *onDisks) wantSame(when string) {
	d.Helper()
	want, err := d.report(d.Context(), "g")
	testcheck.NoError(d, err)
	got, err := d.reportOf(d.heads(), "g")
	if err != nil {
		d.Errorf("%s: %v", when, err)
		return
	}
	ignored := cmpopts.IgnoreFields(LogicalVolume{}, "Attributes", "node", "open")
	if diff := cmp.Diff(want, got, ignored, cmp.AllowUnexported(LogicalVolume{}), cmpopts.EquateEmpty()); diff != "" {
		d.Errorf("%s: LVM reports -, here is read +:\n%s", when, diff)
	}
}

// The parsed metadata equals LVM's report.
func TestMetadataEqualsLVMReport(t *testing.T) {
	d := newOnDisks(t)
	create := []string{"lvcreate", "-q", "-y", "-an", "-Zn", "-Wn"}
	d.wantSame("missing")
	for i := range 12 {
		_, err := d.group.Create(t.Context(), Spec{
			Name: fmt.Sprintf("v-%d", i), Size: int64(4+i) << 20, Tags: []string{"x=y/z", "b", fmt.Sprintf("a.%d", i)},
		})
		testcheck.NoError(d, err)
	}
	d.wantSame("volumes")
	testcheck.NoError(d, d.group.Remove(t.Context(), "v-1", "v-5", "v-6"))
	testcheck.NoError(d, d.group.Tag(t.Context(), "v-2", []string{"0", "zz"}, []string{"b"}))
	d.wantSame("holes")
	d.lvm(append(create, "-n", "pieces", "-L", "40m", "g")...)
	d.lvm(append(create, "-n", "striped", "-i", "2", "-L", "16m", "g")...)
	d.lvm("lvextend", "-q", "-y", "-L", "32m", "g/striped")
	d.lvm("lvchange", "-q", "--permission", "r", "g/v-3")
	d.lvm("vgchange", "-q", "--addtag", "m", "g")
	d.wantSame("pieces and stripes")
	d.lvm("vgchange", "-q", "--vgmetadatacopies", "1", "g")
	d.wantSame("one copy of the metadata")
	went, last := false, uint64(0)
	for i := range 40 {
		d.lvm("lvchange", "-q", "--addtag", fmt.Sprintf("long.%d.%s", i, strings.Repeat("x", 900)), "g/v-3")
		offset := d.heads()[0].offset | d.heads()[1].offset
		if offset < last || i%8 == 7 {
			d.wantSame("metadata that has grown")
		}
		went, last = went || offset < last, offset
	}
	if !went {
		t.Error("the area did not wrap around")
	}
}

// LVM reads metadata that is not simple.
func TestMetadataThatIsNotSimple(t *testing.T) {
	d := newOnDisks(t)
	_, err := d.group.Create(t.Context(), Spec{Name: "v", Size: 8 << 20})
	testcheck.NoError(d, err)
	d.lvm("lvcreate", "-q", "-y", "-an", "-Zn", "-Wn", "--type", "error", "-n", "e", "-L", "4m", "g")
	if _, err := d.reportOf(d.heads(), "g"); !errors.Is(err, errNotSimple) {
		t.Errorf("a target of device-mapper was read: %v", err)
	}
	if found, err := d.group.Find(t.Context(), "v"); err != nil || found.Size != 8<<20 {
		t.Errorf("LVM was not asked: %+v, %v", found, err)
	}
	d.lvm("lvremove", "-q", "-y", "g/e")
	d.wantSame("as before")
	if _, err := d.reportOf(d.heads(), "other"); !errors.Is(err, errNotSimple) {
		t.Errorf("another volume group: %v", err)
	}
	heads := d.heads()
	if _, err := d.reportOf(heads[:1], "g"); !errors.Is(err, errNotSimple) {
		t.Errorf("a disk is missing: %v", err)
	}
	if _, err := d.reportOf(append(heads, heads[0]), "g"); !errors.Is(err, errNotSimple) {
		t.Errorf("duplicate disk: %v", err)
	}
	old := d.heads()
	testcheck.NoError(d, d.group.Tag(t.Context(), "v", []string{"a"}, nil))
	if _, err := d.reportOf([]head{old[0], d.heads()[1]}, "g"); !errors.Is(err, errNotSimple) {
		t.Errorf("disks do not agree: %v", err)
	}
	for i := range 3 {
		testcheck.NoError(d, d.group.Tag(t.Context(), "v", []string{fmt.Sprint(i)}, nil))
	}
	old[0].checksum++
	old[1].checksum++
	if _, err := d.reportOf(old, "g"); !errors.Is(err, errNotSimple) {
		t.Errorf("it was overwritten: %v", err)
	}

	disk, err := os.OpenFile(d.node("pv0"), os.O_RDWR|os.O_SYNC, 0)
	testcheck.NoError(d, err)
	kept := make([]byte, 1)
	_, err = disk.ReadAt(kept, metadataAt+headerLocation)
	testcheck.NoError(d, err)
	_, err = disk.WriteAt([]byte{kept[0] + 1}, metadataAt+headerLocation)
	testcheck.NoError(d, err)
	if d.heads() != nil {
		t.Error("a header with a wrong checksum was taken")
	}
	_, err = disk.WriteAt(kept, metadataAt+headerLocation)
	testcheck.NoError(d, errors.Join(err, disk.Close()))
	d.wantSame("as before")
}

// A disk is read through its file only while its loop device is bound to that file.
func TestDisksAreReadThroughTheirFiles(t *testing.T) {
	d := newOnDisks(t)
	from := func(want func(Disk) string) {
		t.Helper()
		_, err := d.group.Create(t.Context(), Spec{Name: "v", Size: 4 << 20})
		testcheck.NoError(d, err)
		d.wantSame("made")
		for i, disk := range d.Disks() {
			if got := d.heads()[i].source; got != want(disk) {
				t.Errorf("%s is read from %s, want %s", disk.Name, got, want(disk))
			}
		}
		testcheck.NoError(d, d.group.Remove(t.Context(), "v"))
		d.wantSame("removed")
	}
	asFile := func(disk Disk) string { return disk.Path }
	asDevice := func(disk Disk) string { return d.node(disk.Name) }
	from(asFile)
	for _, disk := range d.Disks() { // another file has its name
		testcheck.NoError(d, os.Rename(disk.Path, disk.Path+".moved"))
		testcheck.NoError(d, os.WriteFile(disk.Path, make([]byte, headSize), 0o600))
	}
	from(asDevice)
	for _, disk := range d.Disks() {
		testcheck.NoError(d, os.Rename(disk.Path+".moved", disk.Path))
	}
	from(asFile)
}

func TestParseText(t *testing.T) {
	root, err := parseText("g {\nid = \"a \\\"b\\\\\"\nempty=[]\nlist = [\"a\", 1,\n\"c\"] # comment }\n inner {\n n = -7\n}\n}\n# end\nversion = 1\x00")
	if err != nil {
		t.Fatal(err)
	}
	group := root.section("g")
	inner := group.section("inner")
	var failed error
	if group.text("id") != `a "b\` || strings.Join(group.list("list"), "|") != "a|1|c" ||
		len(group.list("empty")) != 0 ||
		inner.number("n", &failed) != -7 || root.number("version", &failed) != 1 || failed != nil {
		t.Errorf("read %+v, %v", root, failed)
	}
	if inner.number("none", &failed); failed == nil {
		t.Error("a missing number was parsed")
	}
	for _, text := range []string{
		"g {", "g", "g = ", "g = [1", `g = "a`, `g = "a\"`, `g = "\`, "= 1", "g { } }", "g = }",
	} {
		if root, err := parseText(text); err == nil {
			t.Errorf("%q was read: %+v", text, root)
		}
	}
}

func FuzzParseText(f *testing.F) {
	f.Add("g {\nid = \"a\"\nlist = [\"a\", 1]\n inner {\n n = -7\n}\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		root, err := parseText(text)
		if err != nil {
			return
		}
		group := root.section("g")
		_, _ = group.report(map[string]string{})
	})
}
