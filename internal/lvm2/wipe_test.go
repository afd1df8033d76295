//go:build linux

package lvm2

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/volsim/volsim/internal/loopdev"
)

// What discarding may leave is overwritten: the volume's extents and no more.
func TestExtentsAreZeroed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a loop device")
	}
	if _, err := os.Stat(loopdev.ControlNode); err != nil {
		t.Skipf("needs a loop device: %v", err)
	}
	const unit = 64 << 10
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, bytes.Repeat([]byte{1}, 64*unit), 0o600); err != nil {
		t.Fatal(err)
	}
	device, err := loopdev.Bind(t.Context(), path, DiskMark, false)
	if err != nil {
		t.Fatal(err)
	}
	disk := Disk{Name: "pv0", Path: path, Device: device}
	report := &Report{ExtentSize: unit, PhysicalVolumes: []PhysicalVolume{{Name: "pv0", Start: 4 * unit}}}
	volume := LogicalVolume{Extents: []Extent{{"pv0", 1, 2}, {"pv0", 10, 40}}}
	for _, test := range []struct {
		name string
		disk Disk
		do   func(s *System) error
		want func(i int) bool // whether a unit is zeroed
	}{
		{
			"the ends of a file's",
			Disk{Name: "pv0", Device: device, Zeroed: true},
			func(s *System) error { return s.wipeEnds(report, volume) }, func(int) bool { return false },
		},
		{
			"the ends", disk, func(s *System) error { return s.wipeEnds(report, volume) },
			func(i int) bool { return i == 5 || i == 6 || i >= 14 && i < 30 || i >= 38 && i < 54 },
		},
		{
			"all", disk, func(s *System) error { return s.wipe(report, volume) },
			func(i int) bool { return i == 5 || i == 6 || i >= 14 && i < 54 },
		},
	} {
		if err := test.do(&System{disks: []Disk{test.disk}}); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 64 {
			want := byte(1)
			if test.want(i) {
				want = 0
			}
			if !bytes.Equal(content[i*unit:(i+1)*unit], bytes.Repeat([]byte{want}, unit)) {
				t.Errorf("%s: unit %d is not all %d", test.name, i, want)
			}
		}
	}
	if err := unbindDisk(t.Context(), path); err != nil {
		t.Error(err)
	}
}
