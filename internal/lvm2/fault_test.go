//go:build linux

package lvm2_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/filelock"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// lose removes a disk's loop device, as if the disk had been unplugged.
func (w *world) lose(t *testing.T, disk lvm2.Disk) {
	t.Helper()
	bound, err := loopdev.List(func(backing string) bool { return backing == disk.Path })
	testcheck.NoError(t, err)
	for _, each := range bound {
		testcheck.NoError(t, loopdev.Unbind(w.ctx, each))
	}
}

func TestLostDisk(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "first", Size: 240 * mib})
		w.create(t, lvm2.Spec{Name: "second", Size: 240 * mib})
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "second"))
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "first"))
		second, err := w.group.Find(w.ctx, "second")
		testcheck.NoError(t, err)
		for _, disk := range w.Disks() {
			if disk.Name == second.Extents[0].PhysicalVolume {
				w.lose(t, disk)
			}
		}
		report, err := w.group.Report(w.ctx)
		testcheck.NoError(t, err)
		missing := 0
		for _, physical := range report.PhysicalVolumes {
			if physical.Missing {
				missing++
			}
		}
		if second, _ := report.Find("second"); missing != 1 || second.Health != "partial" {
			t.Errorf("%d disks are missing, second is %+v", missing, second)
		}
		_, err = w.group.Create(w.ctx, lvm2.Spec{Name: "v", Size: mib})
		wantError(t, err, lvm2.ErrMissingDevice)
		_, err = w.group.Activate(w.ctx, "second")
		wantError(t, err, lvm2.ErrMissingDevice)
		wantError(t, w.group.Remove(w.ctx, "second"), lvm2.ErrMissingDevice)
		w.activate(t, "first")
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "second"))
		w.addDisks(t) // it is plugged in again
		w.activate(t, "second")
		w.create(t, lvm2.Spec{Name: "v", Size: mib})
	})
}

func TestDuplicateDisk(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		path := w.Disks()[0].Path
		twin, err := loopdev.Bind(w.ctx, path, "volsim:lvm2 test", false)
		testcheck.NoError(t, err)
		_, err = w.AddDevice(w.ctx, twin)
		wantError(t, err, lvm2.ErrDuplicateDevice)
		w.create(t, lvm2.Spec{Name: "u", Size: mib})

		var status unix.Stat_t // another process puts a node into the directory
		testcheck.NoError(t, unix.Stat(twin, &status))
		dev := filepath.Join(w.directory, "lvm", "dev")
		testcheck.NoError(t, unix.Mknod(filepath.Join(dev, "other"), unix.S_IFBLK|0o600, int(status.Rdev)))
		testcheck.NoError(t, w.group.Tag(w.ctx, "u", []string{"a"}, nil)) // since that is not the name of a disk
		node := filepath.Join(dev, "pv9")
		testcheck.NoError(t, unix.Mknod(node, unix.S_IFBLK|0o600, int(status.Rdev)))
		_, err = w.group.Create(w.ctx, lvm2.Spec{Name: "v", Size: mib})
		wantError(t, err, lvm2.ErrDuplicateDevice)
		testcheck.NoError(t, os.Remove(node))
		bound, err := loopdev.List(func(backing string) bool { return backing == path })
		testcheck.NoError(t, err)
		for _, each := range bound {
			if each.Device == twin {
				testcheck.NoError(t, loopdev.Unbind(w.ctx, each))
			}
		}
		w.create(t, lvm2.Spec{Name: "v", Size: mib})
	})
}

func TestLostMetadata(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: mib})
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "v"))
		wipe := func(disk lvm2.Disk) {
			opened, err := os.OpenFile(disk.Device, os.O_RDWR, 0)
			testcheck.NoError(t, err)
			defer opened.Close()
			_, err = opened.Write(make([]byte, mib))
			testcheck.NoError(t, err)
			testcheck.NoError(t, opened.Sync())
		}
		wipe(w.Disks()[0])
		_, err := w.group.Create(w.ctx, lvm2.Spec{Name: "w", Size: mib})
		wantError(t, err, lvm2.ErrMissingDevice)
		wipe(w.Disks()[1])
		_, err = w.group.Find(w.ctx, "v")
		wantError(t, err, lvm2.ErrNoGroup)
		wantError(t, w.group.Remove(w.ctx, "v"), lvm2.ErrNoGroup)
		wantError(t, w.group.Deactivate(w.ctx, "v"), lvm2.ErrNoGroup)
	})
}

// commandOf returns a child of a process that runs lvm, or 0.
func commandOf(parent int) int {
	directories, _ := filepath.Glob("/proc/[0-9]*")
	for _, directory := range directories {
		text, err := os.ReadFile(filepath.Join(directory, "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text))
		if len(fields) > 3 && fields[1] == "(lvm)" && fields[3] == strconv.Itoa(parent) {
			number, _ := strconv.Atoi(filepath.Base(directory))
			return number
		}
	}
	return 0
}

// A full pool refuses writes, reports it, and continues when it is enlarged.
func TestFullThinPool(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		requireLayout(t, w, lvm2.Thin)
		w.create(t, lvm2.Spec{Name: "pool", Size: 16 * mib, Layout: lvm2.ThinPool})
		w.create(t, lvm2.Spec{Name: "v", Size: 64 * mib, Layout: lvm2.Thin, Pool: "pool"})
		opened, err := os.OpenFile(w.activate(t, "v"), os.O_RDWR|unix.O_SYNC, 0)
		testcheck.NoError(t, err)
		chunk := make([]byte, mib)
		for at := range int64(64) {
			chunk[0] = byte(at)
			if _, err = opened.WriteAt(chunk, at*mib); err != nil {
				break
			}
		}
		if err == nil {
			t.Error("64 MiB were written to a pool of 16 MiB")
		}
		pool, err := w.group.Find(w.ctx, "pool")
		testcheck.NoError(t, err)
		if pool.DataPercent != 100 || pool.Health != "out_of_data" {
			t.Errorf("the pool that is full: %+v", pool)
		}
		if largest, err := w.group.Largest(w.ctx, lvm2.Spec{Layout: lvm2.Thin, Pool: "pool"}); err != nil ||
			largest != 0 {
			t.Errorf("room for %d bytes, %v", largest, err)
		}
		_, err = w.group.Extend(w.ctx, "pool", 80*mib)
		testcheck.NoError(t, err)
		_, err = opened.WriteAt(chunk, 40*mib)
		testcheck.NoError(t, err)
		testcheck.NoError(t, opened.Close())
	})
}

// A thick snapshot is active as long as its origin is.
func TestDeactivateOriginAndSnapshot(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 16 * mib})
		fill(t, w.activate(t, "v"), 1)
		_, err := w.group.Snapshot(w.ctx, "v", lvm2.Spec{Name: "s"})
		testcheck.NoError(t, err)
		w.activate(t, "s")
		held, err := os.Open(w.activate(t, "v"))
		testcheck.NoError(t, err)
		wantError(t, w.group.Deactivate(w.ctx, "v"), lvm2.ErrInUse)
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "s"))
		wantFilled(t, w.activate(t, "v"), 1)
		snapshot, err := os.Open(w.activate(t, "s"))
		testcheck.NoError(t, err)
		wantError(t, w.group.Deactivate(w.ctx, "s"), lvm2.ErrInUse)
		testcheck.NoError(t, snapshot.Close())
		testcheck.NoError(t, held.Close())
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "v"))
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "s"))
		for _, name := range []string{"v", "s"} {
			if active, err := w.group.Active(w.ctx, name); err != nil || active.Device != "" {
				t.Errorf("%s is %+v, %v", name, active, err)
			}
		}
		wantFilled(t, w.activate(t, "s"), 1)
		if w.group.Capabilities().Snapshots {
			wantError(t, w.group.Remove(w.ctx, "v"), lvm2.ErrInUse)
		}
		testcheck.NoError(t, w.group.Remove(w.ctx, "v", "s"))
	})
}

// Partitions disappear with their disk, even if their volume is unknown.
func TestPartitionsOfLostVolumeGroup(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		if w.mode != lvm2.Partitions {
			t.Skip("with device-mapper no disk has partitions of ours")
		}
		w.create(t, lvm2.Spec{Name: "v", Size: mib})
		held, err := os.Open(w.activate(t, "v"))
		testcheck.NoError(t, err)
		for _, disk := range w.Disks() {
			opened, err := os.OpenFile(disk.Device, os.O_RDWR, 0)
			testcheck.NoError(t, err)
			_, err = opened.Write(make([]byte, mib))
			testcheck.NoError(t, errors.Join(err, opened.Sync(), opened.Close()))
		}
		wantError(t, w.Detach(w.ctx), lvm2.ErrInUse)
		testcheck.NoError(t, held.Close())
		loop := w.Disks()[0].Device
		testcheck.NoError(t, w.Detach(w.ctx))
		if left, err := filepath.Glob(loop + "p*"); err != nil || len(left) > 0 {
			t.Errorf("remaining: %q, %v", left, err)
		}
	})
}

// Device nodes of an earlier process may refer to other devices by now.
func TestDeviceNodesOfEarlierProcessAreRemoved(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		testcheck.NoError(t, w.Close())
		w.reopen(t)
		_, err := w.AddFile(w.ctx, filepath.Join(w.directory, "a.img"), 0)
		testcheck.NoError(t, err)
		w.group, err = w.VolumeGroup(w.ctx, w.group.Name())
		testcheck.NoError(t, err)
		report, err := w.group.Report(w.ctx)
		testcheck.NoError(t, err)
		if missing := report.PhysicalVolumes[0].Missing != report.PhysicalVolumes[1].Missing; !missing {
			t.Errorf("the refused disk was added: %+v", report.PhysicalVolumes)
		}
		w.addDisks(t)
	})
}

// A waiting caller can be canceled; a running one cannot.
func TestWaitForAnotherChange(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: mib})
		held, err := os.OpenFile(filepath.Join(w.directory, "lvm", "lock", "V_"+w.group.Name()), os.O_RDWR|os.O_CREATE,
			0o600)
		testcheck.NoError(t, err)
		testcheck.NoError(t, unix.Flock(int(held.Fd()), unix.LOCK_EX)) // as another command of LVM does
		begun := make(chan error, 1)
		go func() { begun <- w.group.Tag(w.ctx, "v", []string{"a"}, nil) }()
		for commandOf(os.Getpid()) == 0 {
		}
		ctx, cancel := context.WithCancel(w.ctx)
		waiting := make(chan error, 1)
		go func() {
			_, err := w.group.Create(ctx, lvm2.Spec{Name: "w", Size: mib})
			waiting <- err
		}()
		time.AfterFunc(20*time.Millisecond, cancel)
		wantError(t, <-waiting, context.Canceled)
		testcheck.NoError(t, held.Close())
		testcheck.NoError(t, <-begun)
	})
}

// A driver that starts waits for commands of a killed one, but not indefinitely.
func TestAwaitCommands(t *testing.T) {
	metadataOnly(t)
	requireDevices(t)
	dir := t.TempDir()
	system, err := lvm2.Open(lvm2.Config{Directory: dir, SystemID: "a", Mode: lvm2.Partitions})
	testcheck.NoError(t, err)
	defer system.Close()
	testcheck.NoError(t, system.AwaitCommands(t.Context()))
	held, err := os.Create(filepath.Join(dir, "lock", "V_group"))
	testcheck.NoError(t, err)
	testcheck.NoError(t, unix.Flock(int(held.Fd()), unix.LOCK_EX)) // as a command of LVM does
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = system.AwaitCommands(ctx)
	wantError(t, err, filelock.ErrLocked)
	if !strings.Contains(err.Error(), held.Name()) {
		t.Errorf("error %v does not name the file", err)
	}
	testcheck.NoError(t, held.Close())
	testcheck.NoError(t, system.AwaitCommands(t.Context()))
}
