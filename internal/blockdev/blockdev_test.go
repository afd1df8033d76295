//go:build linux

package blockdev_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
)

// newDevice returns a loop device of 300 MiB, the minimum of XFS, until the test ends.
func newDevice(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: loop devices and mounts")
	}
	if _, err := os.Stat(loopdev.ControlNode); err != nil {
		t.Skipf("needs loop devices: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	testcheck.NoError(t, os.WriteFile(file, nil, 0o600))
	testcheck.NoError(t, os.Truncate(file, 300<<20))
	device, err := loopdev.Bind(t.Context(), file, "volsim:blockdev test", false)
	testcheck.NoError(t, err)
	seen, err := loopdev.At(device)
	testcheck.NoError(t, err)
	t.Cleanup(func() {
		if err := loopdev.Unbind(context.Background(), seen); err != nil {
			t.Error(err)
		}
	})
	return device
}

func run(t *testing.T, name string, arguments ...string) {
	t.Helper()
	if output, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, arguments, err, output)
	}
}

// format makes a file system on a device, or skips the test.
func format(t *testing.T, fsType, device string) {
	t.Helper()
	if _, err := exec.LookPath("mkfs." + fsType); err != nil {
		t.Skip(err)
	}
	known, err := os.ReadFile("/proc/filesystems")
	testcheck.NoError(t, err)
	if !strings.Contains(string(known), "\t"+fsType+"\n") {
		if err := exec.Command("modprobe", fsType).Run(); err != nil {
			t.Skipf("this kernel has no %s", fsType)
		}
	}
	run(t, "mkfs."+fsType, "-q", device)
}

// mount mounts a device at a new directory until the test ends.
func mount(t *testing.T, fsType, device string) string {
	t.Helper()
	target := t.TempDir()
	testcheck.NoError(t, unix.Mount(device, target, fsType, 0, ""))
	t.Cleanup(func() {
		for { // until nothing is mounted
			err := unix.Unmount(target, 0)
			if errors.Is(err, unix.EINVAL) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	return target
}

// eachFS runs a test with a mounted device for each file system.
func eachFS(t *testing.T, test func(t *testing.T, fsType, device, target string)) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			device := newDevice(t)
			format(t, fsType, device)
			test(t, fsType, device, mount(t, fsType, device))
		})
	}
}

func TestMounts(t *testing.T) {
	eachFS(t, func(t *testing.T, _, device, target string) {
		testcheck.NoError(t, os.Mkdir(filepath.Join(target, "part"), 0o700))
		bound := t.TempDir()
		testcheck.NoError(t, unix.Mount(filepath.Join(target, "part"), bound, "", unix.MS_BIND, ""))
		places, err := blockdev.MountPoints(device)
		testcheck.NoError(t, err)
		if want := []string{target, bound}; !slices.Equal(places, want) {
			t.Errorf("it is mounted at %q, want %q", places, want)
		}
		if inUse, err := blockdev.InUse(device); err != nil || !inUse {
			t.Errorf("mounted, and in use is %v, %v", inUse, err)
		}
		testcheck.NoError(t, unix.Unmount(bound, 0))
		testcheck.NoError(t, unix.Unmount(target, 0))
		if places, err := blockdev.MountPoints(device); err != nil || len(places) > 0 {
			t.Errorf("it is mounted nowhere, and at %q, %v", places, err)
		}
		if inUse, err := blockdev.InUse(device); err != nil || inUse {
			t.Errorf("mounted nowhere, and in use is %v, %v", inUse, err)
		}
	})
}

// isFrozen reports whether the file system at a path blocks writes.
func isFrozen(t *testing.T, target string) bool {
	t.Helper()
	err := exec.Command("fsfreeze", "-f", target).Run()
	if err == nil {
		testcheck.NoError(t, exec.Command("fsfreeze", "-u", target).Run())
	}
	return err != nil
}

func TestFreeze(t *testing.T) {
	eachFS(t, func(t *testing.T, _, device, target string) {
		held, err := blockdev.Freeze(device)
		testcheck.NoError(t, err)
		if !isFrozen(t, target) {
			t.Error("it is not frozen")
		}
		again, err := blockdev.Freeze(device)
		if !errors.Is(err, blockdev.ErrFrozen) || again != nil || !strings.Contains(err.Error(), target) {
			t.Errorf("frozen twice: %v", err)
		}
		if err := unix.Unmount(target, 0); !errors.Is(err, unix.EBUSY) {
			t.Errorf("unmounted while it was held: %v", err)
		}
		testcheck.NoError(t, held.Thaw())
		if isFrozen(t, target) {
			t.Error("it stays frozen")
		}

		// A killed process leaves it frozen; another one thaws it.
		held, err = blockdev.Freeze(device)
		testcheck.NoError(t, err)
		if thawed, err := blockdev.Thaw(device); err != nil || !thawed {
			t.Errorf("thawed: %v, %v", thawed, err)
		}
		if thawed, err := blockdev.Thaw(device); err != nil || thawed {
			t.Errorf("thawed a file system that was not frozen: %v, %v", thawed, err)
		}
		testcheck.NoError(t, held.Thaw())
	})
}

func TestFreezeFlushesWrites(t *testing.T) {
	eachFS(t, func(t *testing.T, _, device, target string) {
		content := []byte(strings.Repeat("data just written ", 1000))
		testcheck.NoError(t, os.WriteFile(filepath.Join(target, "file"), content, 0o600))
		held, err := blockdev.Freeze(device)
		testcheck.NoError(t, err)
		defer func() { testcheck.NoError(t, held.Thaw()) }()
		testcheck.NoError(t, blockdev.Flush(device))
		bound, err := loopdev.At(device)
		testcheck.NoError(t, err)
		image, err := os.ReadFile(bound.BackingFile)
		testcheck.NoError(t, err)
		if !strings.Contains(string(image), string(content[:2048])) {
			t.Error("it is not in the file behind the device")
		}
	})
}

func TestHiddenMount(t *testing.T) {
	eachFS(t, func(t *testing.T, fsType, device, target string) {
		testcheck.NoError(t, unix.Mount("over", target, "tmpfs", 0, ""))
		held, err := blockdev.Freeze(device)
		if err == nil || held != nil || !strings.Contains(err.Error(), "mounted over "+target) {
			t.Errorf("froze an inaccessible mount: %v", err)
		}
		if _, err := blockdev.Thaw(device); err == nil {
			t.Error("thawed an inaccessible mount")
		}
		elsewhere := mount(t, fsType, device)
		held, err = blockdev.Freeze(device)
		testcheck.NoError(t, err)
		if !isFrozen(t, elsewhere) {
			t.Error("another file system was frozen")
		}
		testcheck.NoError(t, held.Thaw())
		testcheck.NoError(t, unix.Unmount(target, 0)) // the mount over it
	})
}

func TestFreezeOfUnmountedDevice(t *testing.T) {
	device := newDevice(t)
	held, err := blockdev.Freeze(device)
	if err != nil || held != nil {
		t.Errorf("froze %v, %v", held, err)
	}
	testcheck.NoError(t, held.Thaw())
	if thawed, err := blockdev.Thaw(device); err != nil || thawed {
		t.Errorf("thawed %v, %v", thawed, err)
	}
}

func TestInUseAndIsOpen(t *testing.T) {
	device := newDevice(t)
	want := func(when string, wantInUse, wantOpen bool) {
		t.Helper()
		inUse, err := blockdev.InUse(device)
		testcheck.NoError(t, err)
		isOpen, err := blockdev.IsOpen(device)
		testcheck.NoError(t, err)
		if inUse != wantInUse || isOpen != wantOpen {
			t.Errorf("%s: in use %v, open %v", when, inUse, isOpen)
		}
	}
	want("nobody", false, false)
	target := filepath.Join(t.TempDir(), "volume")
	testcheck.NoError(t, os.WriteFile(target, nil, 0o600))
	testcheck.NoError(t, unix.Mount(device, target, "", unix.MS_BIND, ""))
	want("bound for a pod", false, true)
	testcheck.NoError(t, unix.Unmount(target, 0))
	want("unbound", false, false)
	// Another node of the same device is bound; the device counts, not the node.
	number, err := blockdev.NumberOf(device)
	testcheck.NoError(t, err)
	other := filepath.Join(t.TempDir(), "node")
	testcheck.NoError(t, unix.Mknod(other, unix.S_IFBLK|0o600, int(unix.Mkdev(number.Major, number.Minor))))
	testcheck.NoError(t, unix.Mount(other, target, "", unix.MS_BIND, ""))
	want("bound by another node", false, true)
	testcheck.NoError(t, unix.Unmount(target, 0))
	holder, err := os.OpenFile(device, os.O_RDONLY|unix.O_EXCL, 0)
	testcheck.NoError(t, err)
	want("held", true, true)
	testcheck.NoError(t, holder.Close())
}

func TestNumbers(t *testing.T) {
	device := newDevice(t)
	number, err := blockdev.NumberOf(device)
	testcheck.NoError(t, err)
	directory, err := number.SysfsDirectory()
	testcheck.NoError(t, err)
	if filepath.Base(directory) != filepath.Base(device) || !strings.HasPrefix(number.String(), "7:") {
		t.Errorf("%s is %s, %s", device, number, directory)
	}
	if size, err := blockdev.Size(device); err != nil || size != 300<<20 {
		t.Errorf("it has %d bytes, %v", size, err)
	}
	if _, err := blockdev.NumberOf("/dev/null"); !errors.Is(err, blockdev.ErrNoDevice) {
		t.Errorf("/dev/null: %v", err)
	}
	if _, err := blockdev.NumberOf(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if _, err := (blockdev.Number{Major: 7, Minor: 1 << 19}).SysfsDirectory(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing device: %v", err)
	}
}

func TestSettings(t *testing.T) {
	device := newDevice(t)
	ahead := func() int64 {
		text, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "queue/read_ahead_kb"))
		testcheck.NoError(t, err)
		kibibytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		testcheck.NoError(t, err)
		return kibibytes
	}
	for _, wanted := range []int64{ahead() + 64, ahead()} {
		for _, want := range []bool{true, false} {
			if changed, err := blockdev.SetReadAhead(device, wanted); err != nil || changed != want {
				t.Errorf("set reading ahead to %d: %v, %v", wanted, changed, err)
			}
			if current := ahead(); current != wanted {
				t.Errorf("it reads %d KiB ahead, want %d", current, wanted)
			}
		}
	}
	testcheck.NoError(t, blockdev.SetReadOnly(device, true))
	if node, err := os.OpenFile(device, os.O_WRONLY, 0); err == nil {
		if _, err := node.WriteAt([]byte("x"), 0); err == nil && node.Sync() == nil {
			t.Error("it can be written to")
		}
		node.Close()
	}
	testcheck.NoError(t, blockdev.SetReadOnly(device, false))
	node, err := os.OpenFile(device, os.O_WRONLY, 0)
	testcheck.NoError(t, err)
	_, err = node.WriteAt([]byte("x"), 0)
	testcheck.NoError(t, errors.Join(err, node.Sync(), node.Close()))
}
