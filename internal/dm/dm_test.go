//go:build linux

package dm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/dm"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
)

const blockSize = 4096

// newDisk returns a disk on a loop device of 16 MiB. Both are removed at the end of the test.
func newDisk(t *testing.T) *dm.Disk {
	t.Helper()
	if err := dm.Probe(); err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "disk")
	testcheck.NoError(t, os.WriteFile(file, nil, 0o600))
	testcheck.NoError(t, os.Truncate(file, 16<<20))
	loop, err := loopdev.Bind(t.Context(), file, t.Name(), false)
	testcheck.NoError(t, err)
	t.Cleanup(func() {
		bound, err := loopdev.List(func(backing string) bool { return backing == file })
		testcheck.NoError(t, err)
		for _, b := range bound {
			testcheck.NoError(t, loopdev.Unbind(context.Background(), b))
		}
	})
	disk, err := dm.NewDisk(t.Context(), fmt.Sprintf("volsim-test-%d", os.Getpid()), loop)
	testcheck.NoError(t, err)
	t.Cleanup(func() { testcheck.NoError(t, disk.Remove(context.Background())) })
	return disk
}

// open opens the disk without a cache.
func open(t *testing.T, disk *dm.Disk) *os.File {
	t.Helper()
	f, err := os.OpenFile(disk.Device(), os.O_RDWR|unix.O_DIRECT|unix.O_SYNC, 0)
	testcheck.NoError(t, err)
	t.Cleanup(func() { testcheck.NoError(t, f.Close()) })
	return f
}

// block returns a block for O_DIRECT, filled with a byte.
func block(t *testing.T, fill byte) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	testcheck.NoError(t, err)
	t.Cleanup(func() { testcheck.NoError(t, unix.Munmap(b)) })
	for i := range b {
		b[i] = fill
	}
	return b
}

// TestSetBehaviour changes the behaviour of an open disk.
func TestSetBehaviour(t *testing.T) {
	disk := newDisk(t)
	f := open(t, disk)
	one, two, got := block(t, 1), block(t, 2), block(t, 0)
	write := func(b []byte) error { _, err := f.WriteAt(b, 0); return err }
	read := func() (byte, error) { _, err := f.ReadAt(got, 0); return got[0], err }

	testcheck.NoError(t, write(one))
	for _, c := range []struct {
		name             string
		behaviour        dm.Behaviour
		writing, reading error
		reads, then      byte // after writing two: with the behaviour, and when healthy again
	}{
		{"broken", dm.FailsAll(), unix.EIO, unix.EIO, 0, 1},
		{"fails writes", dm.FailsWrites(), unix.EIO, nil, 1, 1},
		{"forgets writes", dm.DropsWrites(), nil, nil, 1, 1},
		{"slow", dm.Slow(0, 0), nil, nil, 2, 2},
	} {
		testcheck.NoError(t, disk.SetBehaviour(t.Context(), c.behaviour))
		if err := write(two); !errors.Is(err, c.writing) {
			t.Errorf("%s: write: %v, want %v", c.name, err, c.writing)
		}
		if b, err := read(); !errors.Is(err, c.reading) || err == nil && b != c.reads {
			t.Errorf("%s: read: %d, %v, want %d, %v", c.name, b, err, c.reads, c.reading)
		}
		testcheck.NoError(t, disk.SetBehaviour(t.Context(), dm.Healthy()))
		if b, err := read(); err != nil || b != c.then {
			t.Errorf("healthy after %s: read: %d, %v, want %d", c.name, b, err, c.then)
		}
	}
}

// TestSlowDelaysRequests delays a write for so long that reads overtake it, and ends the delay.
func TestSlowDelaysRequests(t *testing.T) {
	disk := newDisk(t)
	f, two, got := open(t, disk), block(t, 2), block(t, 1)
	testcheck.NoError(t, disk.SetBehaviour(t.Context(), dm.Slow(0, time.Hour)))
	wrote := make(chan error, 1)
	go func() {
		_, err := f.WriteAt(two, 0)
		wrote <- err
	}()
	awaitWrite(t, disk)
	if _, err := f.ReadAt(got, 0); err != nil || got[0] != 0 {
		t.Errorf("read during a delayed write: %d, %v, want 0", got[0], err)
	}
	select {
	case err := <-wrote:
		t.Errorf("the write was not delayed: %v", err)
		wrote <- err
	default:
	}
	testcheck.NoError(t, disk.SetBehaviour(t.Context(), dm.Healthy()))
	testcheck.NoError(t, <-wrote)
	if _, err := f.ReadAt(got, 0); err != nil || got[0] != 2 {
		t.Errorf("read after the write: %d, %v, want 2", got[0], err)
	}
}

// awaitWrite waits until a slow disk delays a write. The kernel counts delayed reads and writes.
func awaitWrite(t *testing.T, disk *dm.Disk) {
	t.Helper()
	for {
		text, err := exec.Command("dmsetup", "status", filepath.Base(disk.Device())).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		fields := strings.Fields(string(text)) // 0 32768 delay READS WRITES, and FLUSHES in newer kernels
		if len(fields) < 5 || fields[2] != "delay" {
			t.Fatalf("status of a slow disk: %s", text)
		}
		if fields[4] != "0" {
			return
		}
	}
}

func TestRemoveFailsWhileOpen(t *testing.T) {
	disk := newDisk(t)
	f, err := os.Open(disk.Device())
	testcheck.NoError(t, err)
	if err := disk.Remove(t.Context()); err == nil {
		t.Error("a disk that is open was removed")
	}
	testcheck.NoError(t, f.Close())
}

// TestFileSystemSurvivesDiskFailure checks that a file system reacts to errors as configured, and that its data is intact
// when the disk is healthy again.
func TestFileSystemSurvivesDiskFailure(t *testing.T) {
	disk := newDisk(t)
	if output, err := exec.Command("mkfs.ext4", "-q", disk.Device()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	folder := t.TempDir()
	mount := func() { testcheck.NoError(t, unix.Mount(disk.Device(), folder, "ext4", 0, "")) }
	mount()
	testcheck.NoError(t, writeSynced(filepath.Join(folder, "before"), "kept"))
	testcheck.NoError(t, disk.SetBehaviour(t.Context(), dm.FailsAll()))
	if err := writeSynced(filepath.Join(folder, "after"), "lost"); err == nil {
		t.Error("a file was written on a broken disk")
	}
	testcheck.NoError(t, unix.Unmount(folder, 0))
	testcheck.NoError(t, disk.SetBehaviour(t.Context(), dm.Healthy()))
	if output, err := exec.Command("e2fsck", "-fp", disk.Device()).CombinedOutput(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 { // 1: errors were corrected
			t.Fatalf("%v: %s", err, output)
		}
	}
	mount()
	defer func() { testcheck.NoError(t, unix.Unmount(folder, 0)) }()
	if text, err := os.ReadFile(filepath.Join(folder, "before")); err != nil || string(text) != "kept" {
		t.Errorf("got %q and %v, want the synced data", text, err)
	}
}

// writeSynced writes and syncs a file.
func writeSynced(file, text string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
