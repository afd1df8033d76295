package lvm

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
)

// A disk whose file is removed is listed, and is missing when its loop device is lost too. A driver
// that is opened without it does not create a new one, and continues when it is back.
func TestRemovedDisk(t *testing.T) {
	m := newMachine(t)
	id, err := m.create("volume", nil)
	m.must(err)
	disk := m.driver.pools[0].system.Disks()[0]
	away := disk.Path + ".away"
	m.must(os.Link(disk.Path, away))
	m.must(os.Remove(disk.Path))
	orphans, err := m.driver.Orphans(t.Context())
	m.must(err)
	if len(orphans) != 1 || !strings.Contains(orphans[0], "losetup -d "+disk.Device) ||
		!strings.Contains(orphans[0], disk.Path) {
		t.Errorf("orphans: %q", orphans)
	}

	bound, err := loopdev.At(disk.Device)
	m.must(err)
	if !bound.Deleted || bound.BackingFile != disk.Path {
		t.Fatalf("%s is %+v", disk.Device, bound)
	}
	m.must(loopdev.Unbind(t.Context(), bound))
	_, err = m.create("another", nil)
	wantStatus(t, err, codes.Unavailable, "bring its disks back")
	_, err = m.driver.Controller().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantStatus(t, err, codes.Unavailable, "bring its disks back")
	m.must(m.driver.Close())
	if driver, err := openIn(m.dir, nil); !errors.Is(err, lvm2.ErrMissingDevice) {
		t.Errorf("it was opened: %v, %v", driver, err)
	}
	if _, err := os.Lstat(disk.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another file is in its place: %v", err)
	}

	m.must(os.Rename(away, disk.Path))
	m.open()
	lv, err := m.driver.pools[0].find(t.Context(), id)
	if err != nil || len(lv.Extents) != 1 {
		t.Errorf("the volume is %+v (%v)", lv, err)
	}
	if orphans, err = m.driver.Orphans(t.Context()); err != nil || len(orphans) > 0 {
		t.Errorf("orphans: %q, %v", orphans, err)
	}
}

// A driver whose only disk is missing is not taken for a new one, unless the marker file is
// removed.
func TestAllDisksRemoved(t *testing.T) {
	needLVM(t)
	dir := plainDir(t)
	disk := filepath.Join(dir, "disk")
	cfg := Config{Nodes: []NodeConfig{{
		Name: node, Group: groupIn(dir), Files: []File{{Path: disk, SizeBytes: 256 << 20}},
		LVM: lvm2.Config{Directory: filepath.Join(dir, "lvm"), SystemID: "volsim-test-away"},
	}}}
	open := func() *Driver {
		t.Helper()
		driver, err := New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return driver
	}
	driver := open()
	if err := errors.Join(driver.pools[0].system.Detach(t.Context()), driver.Close(),
		os.Rename(disk, disk+".away")); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(dir, "lvm", groupFile)
	if _, err := New(t.Context(), cfg); !errors.Is(err, lvm2.ErrMissingDevice) || !strings.Contains(err.Error(), note) {
		t.Errorf("opened, or without advice: %v", err)
	}
	if _, err := os.Lstat(disk); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another file is in its place: %v", err)
	}
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	if err := open().Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(disk+".away", disk); err != nil {
		t.Fatal(err)
	}
	if err := open().Destroy(t.Context()); err != nil { // the disk that came back is used
		t.Fatal(err)
	}
}

// loopsIn returns the loop devices over files in a directory.
func loopsIn(t *testing.T, dir string) []string {
	t.Helper()
	bound, err := loopdev.List(func(backing string) bool { return filepath.Dir(backing) == dir })
	if err != nil {
		t.Fatal(err)
	}
	var devices []string
	for _, each := range bound {
		devices = append(devices, each.Device)
	}
	return devices
}

// Disks keep their loop devices after Close only while a volume has a device.
func TestCloseReleasesUnusedDisks(t *testing.T) {
	m := newMachine(t)
	id, err := m.create("data", nil)
	m.must(err)
	m.must(m.driver.Close())
	if left := loopsIn(t, m.dir); len(left) > 0 {
		t.Errorf("loop devices without an attached volume: %v", left)
	}
	m.open()
	m.driver.Node(node, m.fs)
	published := m.publish(id)
	before := loopsIn(t, m.dir)
	m.must(m.driver.Close())
	if left := loopsIn(t, m.dir); len(left) != 2 || !slices.Equal(left, before) {
		t.Errorf("loop devices of an attached volume: %v, before: %v", left, before)
	}
	m.open()
	m.driver.Node(node, m.fs)
	m.must(m.stage(id, published))
	m.must(m.fs.UnmountAll())
	_, err = m.driver.Controller().ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id})
	m.must(err)
	m.must(m.driver.Close())
	if left := loopsIn(t, m.dir); len(left) > 0 {
		t.Errorf("loop devices after the volume was detached: %v", left)
	}
	m.open()
}

// A driver that does not open leaves no loop devices of its own behind.
func TestFailedOpenReleasesDisks(t *testing.T) {
	needLVM(t)
	dir := plainDir(t)
	cfg := Config{Nodes: []NodeConfig{{
		Name: node, Group: groupIn(dir), Files: []File{{Path: filepath.Join(dir, "disk"), SizeBytes: 64 << 20}},
		LVM: lvm2.Config{Directory: filepath.Join(dir, "lvm"), SystemID: "volsim-test-release"},
	}}}
	driver, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := driver.Close(); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(dir, "lvm", attachmentsFolder, "vol-0123456789abcdef.attached")
	if err := os.Symlink("of another version", record); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), record) {
		t.Errorf("got %v, want an error that names %s", err, record)
	}
	if left := loopsIn(t, dir); len(left) > 0 {
		t.Errorf("loop devices of a driver that did not open: %v", left)
	}
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	driver, err = New(t.Context(), cfg)
	if err == nil {
		err = driver.Destroy(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}
