//go:build linux

package lvm2_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// device creates a block device of 64 MiB that belongs to no System.
func device(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	testcheck.NoError(t, os.WriteFile(path, nil, 0o600))
	testcheck.NoError(t, os.Truncate(path, 64*mib))
	node, err := loopdev.Bind(t.Context(), path, "volsim:lvm2 test", false)
	testcheck.NoError(t, err)
	t.Cleanup(func() { unbind(t, path) })
	return node
}

func unbind(t *testing.T, path string) {
	t.Helper()
	bound, err := loopdev.List(func(backing string) bool { return backing == path })
	testcheck.NoError(t, err)
	for _, each := range bound {
		testcheck.NoError(t, loopdev.Unbind(context.Background(), each))
	}
}

// run runs a program with the machine's own configuration.
func run(t *testing.T, name string, arguments ...string) (string, error) {
	t.Helper()
	output, err := exec.Command(name, arguments...).CombinedOutput()
	return string(output), err
}

func TestMachinesLVMRefusesOurGroups(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 8 * mib})
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "v"))
		path := w.group.Name() + "/v"
		for _, command := range []string{
			"vgs " + w.group.Name(), "lvremove -y " + path, "lvchange -y --addtag x " + path,
			"vgremove -y -f " + w.group.Name(), "vgchange -y --addtag x " + w.group.Name(),
		} {
			arguments := strings.Fields(command)
			output, err := run(t, arguments[0], arguments[1:]...)
			if err == nil {
				t.Errorf("%s: succeeded: %s", command, output)
			}
			if !strings.Contains(output, "system ID") && !strings.Contains(output, "not found") {
				t.Errorf("%s: %s", command, output)
			}
		}
		output, _ := run(t, "lvs", "--noheadings", "-o", "vg_name")
		for line := range strings.Lines(output) {
			if strings.TrimSpace(line) == w.group.Name() {
				t.Errorf("the machine's lvs shows our volumes: %s", output)
			}
		}
		volume, err := w.group.Find(w.ctx, "v")
		testcheck.NoError(t, err)
		if len(volume.Tags) > 0 {
			t.Errorf("the machine's LVM tagged it: %q", volume.Tags)
		}
	})
}

func TestForeignDisksAreRefused(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		directory := t.TempDir()
		other, err := lvm2.Open(lvm2.Config{Directory: directory, SystemID: "another", Mode: w.mode})
		testcheck.NoError(t, err)
		defer other.Close()
		path := filepath.Join(directory, "disk")
		disk, err := other.AddFile(w.ctx, path, 64*mib)
		testcheck.NoError(t, err)
		group, err := other.CreateVolumeGroup(w.ctx, lvm2.GroupSpec{
			Name: groupName(directory) + "x", Disks: []string{disk.Name},
		})
		testcheck.NoError(t, err)

		_, err = w.AddDevice(w.ctx, disk.Device)
		wantError(t, err, lvm2.ErrForeign)
		_, err = w.VolumeGroup(w.ctx, group.Name())
		wantError(t, err, lvm2.ErrNoGroup)
		_, err = other.VolumeGroup(w.ctx, w.group.Name())
		wantError(t, err, lvm2.ErrNoGroup)
		testcheck.NoError(t, other.Detach(w.ctx))
		_, err = w.AddFile(w.ctx, path, 0)
		wantError(t, err, lvm2.ErrForeign)
		_, err = other.AddFile(w.ctx, path, 0)
		testcheck.NoError(t, err)
		testcheck.NoError(t, group.RemoveGroup(w.ctx))
		testcheck.NoError(t, other.Detach(w.ctx))
		if len(w.Disks()) != 2 {
			t.Errorf("disks %+v", w.Disks())
		}
	})
}

// The files of a removed volume group are as empty as when they were created.
func TestDisksOfRemovedGroupCanBeReused(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 16 * mib})
		fill(t, w.activate(t, "v"), 7)
		testcheck.NoError(t, w.group.Remove(w.ctx, "v"))
		testcheck.NoError(t, w.group.RemoveGroup(w.ctx))
		disks := w.Disks()
		testcheck.NoError(t, w.Detach(w.ctx))
		var names []string
		for _, disk := range disks {
			if output, err := exec.Command("stat", "-c", "%b", disk.Path).CombinedOutput(); err != nil ||
				string(output) != "0\n" {
				t.Errorf("%s occupies %q blocks (%v)", disk.Path, output, err)
			}
			again, err := w.AddFile(w.ctx, disk.Path, 0)
			testcheck.NoError(t, err)
			names = append(names, again.Name)
		}
		_, err := w.CreateVolumeGroup(w.ctx, lvm2.GroupSpec{Name: w.group.Name(), Disks: names})
		testcheck.NoError(t, err)
	})
}

// A volume group without a system ID belongs to any LVM, and is not ours.
func TestGroupWithoutSystemIDIsRefused(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		node, name := device(t), groupName(w.directory)+"y"
		if output, err := run(t, "vgcreate", "--devices", node, "-y", name, node); err != nil {
			t.Fatal(output)
		}
		_, err := w.AddDevice(w.ctx, node)
		wantError(t, err, lvm2.ErrForeign)
		if output, err := run(t, "vgremove", "--devices", node, "-y", name); err != nil {
			t.Fatal(output)
		}
	})
}

func TestDisksWithContentAreRefused(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		path := filepath.Join(w.directory, "content")
		testcheck.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("content "), int(mib)), 0o600))
		_, err := w.AddFile(w.ctx, path, 0)
		wantError(t, err, lvm2.ErrNotEmpty)

		node := device(t)
		target, unmount := mount(t, node, "ext4", true)
		testcheck.NoError(t, os.WriteFile(filepath.Join(target, "f"), []byte("kept"), 0o600))
		_, err = w.AddDevice(w.ctx, node)
		wantError(t, err, lvm2.ErrInUse)
		unmount()
		disk, err := w.AddDevice(w.ctx, node)
		testcheck.NoError(t, err)
		wantError(t, w.group.ExtendGroup(w.ctx, disk.Name), lvm2.ErrNotEmpty)
		_, err = w.CreateVolumeGroup(w.ctx, lvm2.GroupSpec{
			Name: groupName(w.directory) + "z", Disks: []string{disk.Name},
		})
		wantError(t, err, lvm2.ErrNotEmpty)
		testcheck.NoError(t, w.RemoveDisk(w.ctx, disk.Name))
		target, unmount = mount(t, node, "ext4", false)
		if content, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(content) != "kept" {
			t.Errorf("read %q, %v", content, err)
		}
		unmount()
	})
}

func TestBlockDeviceAsDisk(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) { oldContentIsGone(t, w, device(t)) })
}

// A partition cannot have partitions.
func TestPartitionAsDisk(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		whole := device(t)
		if output, err := run(t, "addpart", whole, "1", "2048", "100000"); err != nil {
			t.Fatal(output)
		}
		t.Cleanup(func() {
			if output, err := run(t, "delpart", whole, "1"); err != nil {
				t.Error(output)
			}
		})
		oldContentIsGone(t, w, whole+"p1")
	})
}

func oldContentIsGone(t *testing.T, w *world, node string) {
	opened, err := os.OpenFile(node, os.O_RDWR, 0)
	testcheck.NoError(t, err)
	old := bytes.Repeat([]byte("anothers"), int(mib)/8)
	for at := int64(0); at < 40*mib; at += mib {
		_, err := opened.WriteAt(old, at)
		testcheck.NoError(t, err)
	}
	testcheck.NoError(t, opened.Close())
	disk, err := w.AddDevice(w.ctx, node)
	testcheck.NoError(t, err)
	group, err := w.CreateVolumeGroup(w.ctx, lvm2.GroupSpec{
		Name: groupName(w.directory) + "d", Disks: []string{disk.Name},
	})
	testcheck.NoError(t, err)
	_, err = group.Create(w.ctx, lvm2.Spec{Name: "v", Size: 16 * mib})
	testcheck.NoError(t, err)
	volume, err := group.Activate(w.ctx, "v")
	testcheck.NoError(t, err)
	begin := make([]byte, 4096)
	read(t, volume, begin, 0)
	if !bytes.Equal(begin, make([]byte, 4096)) {
		t.Errorf("a new volume begins with %q", begin[:8])
	}
	_, err = group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"})
	testcheck.NoError(t, err)
	fill(t, volume, 5)
	testcheck.NoError(t, group.Remove(w.ctx, "v", "c"))
	chunk := make([]byte, mib)
	for at := int64(2) * mib; at < 17*mib; at += mib { // the extents begin at 1 MiB
		read(t, node, chunk, at)
		if !bytes.Equal(chunk, make([]byte, mib)) {
			t.Fatalf("at %d of the disk of a removed volume: %q", at, chunk[:8])
		}
	}
	testcheck.NoError(t, group.RemoveGroup(w.ctx))
	testcheck.NoError(t, w.RemoveDisk(w.ctx, disk.Name))
}

func read(t *testing.T, device string, to []byte, at int64) {
	t.Helper()
	opened, err := os.Open(device)
	testcheck.NoError(t, err)
	defer opened.Close()
	_, err = opened.ReadAt(to, at)
	testcheck.NoError(t, err)
}

// The kernel keeps the partitions of a loop device for its next user.
func TestPartitionsAreNotInherited(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		if w.mode != lvm2.Partitions {
			t.Skip("with device-mapper no disk has partitions of ours")
		}
		w.create(t, lvm2.Spec{Name: "v", Size: 4 * mib})
		w.activate(t, "v")
		loop := w.Disks()[0].Device
		testcheck.NoError(t, w.Detach(w.ctx))
		if left, err := filepath.Glob(loop + "p*"); err != nil || len(left) > 0 {
			t.Errorf("remaining: %q, %v", left, err)
		}
		w.restart(t)
		w.activate(t, "v")
		loop = w.Disks()[0].Device // it may now have another loop device

		if output, err := run(t, "losetup", "-d", loop); err != nil { // by another user
			t.Fatal(output)
		}
		w.restart(t)
		if active, err := w.group.Active(w.ctx, "v"); err != nil || active.Device != "" {
			t.Errorf("active on a new disk: %+v, %v", active, err)
		}
		held, err := os.Open(w.activate(t, "v"))
		testcheck.NoError(t, err)
		testcheck.NoError(t, held.Close())
	})
}

func TestDiskInUseStays(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		wantError(t, w.RemoveDisk(w.ctx, "pv0"), lvm2.ErrInUse)
		testcheck.NoError(t, w.RemoveDisk(w.ctx, "none"))
		_, err := w.CreateVolumeGroup(w.ctx, lvm2.GroupSpec{Name: groupName(w.directory) + "u", Disks: []string{"pv0"}})
		wantError(t, err, lvm2.ErrInUse)
		_, err = w.CreateVolumeGroup(w.ctx, lvm2.GroupSpec{Name: groupName(w.directory) + "u", Disks: []string{"pv7"}})
		wantError(t, err, lvm2.ErrMissingDevice)
		w.create(t, lvm2.Spec{Name: "v", Size: 4 * mib})
		wantError(t, w.group.RemoveGroup(w.ctx), lvm2.ErrInUse)
	})
}

func TestCreateAndExtendVolumeGroup(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		spec := lvm2.GroupSpec{Name: w.group.Name(), Disks: []string{"pv0", "pv1"}, Tags: []string{owned}}
		again, err := w.CreateVolumeGroup(w.ctx, spec)
		testcheck.NoError(t, err)
		if again != w.group {
			t.Error("two handles of one volume group")
		}
		spec.Tags = []string{"another"}
		_, err = w.CreateVolumeGroup(w.ctx, spec)
		wantError(t, err, lvm2.ErrExists)
		disk, err := w.AddFile(w.ctx, filepath.Join(w.directory, "c.img"), 64*mib)
		testcheck.NoError(t, err)
		testcheck.NoError(t, w.group.ExtendGroup(w.ctx, disk.Name))
		testcheck.NoError(t, w.group.ExtendGroup(w.ctx, disk.Name))
		report, err := w.group.Report(w.ctx)
		testcheck.NoError(t, err)
		if len(report.PhysicalVolumes) != 3 || report.SystemID != systemID || report.Tags[0] != owned ||
			report.Free != 2*252*mib+60*mib {
			t.Errorf("report %+v", report)
		}
		found, err := w.VolumeGroups(w.ctx)
		testcheck.NoError(t, err)
		if len(found) != 1 || found[0] != w.group.Name() {
			t.Errorf("volume groups %q", found)
		}
	})
}

func TestDirectoryIsExclusive(t *testing.T) {
	metadataOnly(t)
	requireDevices(t)
	config := lvm2.Config{Directory: t.TempDir(), SystemID: "a", Mode: lvm2.Partitions}
	system, err := lvm2.Open(config)
	testcheck.NoError(t, err)
	_, err = lvm2.Open(config)
	wantError(t, err, lvm2.ErrInUse)
	testcheck.NoError(t, system.Close())
	system, err = lvm2.Open(config)
	testcheck.NoError(t, err)
	held, err := os.OpenFile(filepath.Join(config.Directory, "owner"), os.O_RDWR, 0)
	testcheck.NoError(t, err)
	testcheck.NoError(t, system.Close())
	testcheck.NoError(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	closed := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() { closed <- held.Close() })
	system, err = lvm2.Open(config) // waits for a child of a killed process
	testcheck.NoError(t, err)
	testcheck.NoError(t, <-closed)
	testcheck.NoError(t, system.Close())
	for _, bad := range []lvm2.Config{
		{Directory: "relative", SystemID: "a"},
		{Directory: "/tmp/a b", SystemID: "a"},
		{Directory: t.TempDir()},
		{Directory: t.TempDir(), SystemID: `a"`},
	} {
		_, err := lvm2.Open(bad)
		wantError(t, err, lvm2.ErrInvalidArgument)
	}
}
