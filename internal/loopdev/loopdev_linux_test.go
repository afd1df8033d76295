package loopdev_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopdev"
)

// TestHiddenFile has a device over a file that a mount hides. Its path leads to another file, as that of a file in another mount
// namespace does. A mount namespace would keep the mounts of tests that run at the same time.
func TestHiddenFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: loop devices and mounts")
	}
	if _, err := os.Stat(loopdev.ControlNode); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "disk")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	listed := func() []string {
		t.Helper()
		bound, err := loopdev.List(func(backing string) bool { return backing == file })
		if err != nil {
			t.Fatal(err)
		}
		var devices []string
		for _, each := range bound {
			devices = append(devices, each.Device)
		}
		return devices
	}
	unbind := func(device string) {
		t.Helper()
		bound, err := loopdev.At(device)
		if err == nil {
			err = loopdev.Unbind(context.Background(), bound)
		}
		if err != nil {
			t.Error(err)
		}
	}
	device, err := loopdev.Bind(t.Context(), file, "hidden", false)
	if err != nil {
		t.Fatal(err)
	}
	defer unbind(device)
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if bound, err := loopdev.At(device); err != nil || bound.BackingFile != file {
		t.Fatalf("the device over the hidden file is %+v, %v", bound, err)
	}
	if over, err := loopdev.Over(file); err != nil || len(over) > 0 {
		t.Errorf("over the file here: %+v, %v", over, err)
	}
	if got := listed(); len(got) > 0 {
		t.Errorf("%v, over a hidden file", got)
	}
	own, err := loopdev.Bind(t.Context(), file, "own", false)
	if err != nil {
		t.Fatal(err)
	}
	defer unbind(own)
	if got := listed(); len(got) != 1 || got[0] != own {
		t.Errorf("%v, want %s", got, own)
	}
	// The file has another path too.
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.Link(file, elsewhere); err != nil {
		t.Fatal(err)
	}
	if over, err := loopdev.Over(elsewhere); err != nil || len(over) != 1 || over[0].Device != own {
		t.Errorf("over the file here: %+v, %v", over, err)
	}
}
