//go:build linux

package lvm2_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// bound returns the loop devices of a world's disks.
func (w *world) bound(t *testing.T) []loopdev.Binding {
	t.Helper()
	bound, err := loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, w.directory+"/") })
	testcheck.NoError(t, err)
	return bound
}

// TestRelease releases the disks of a System that was closed, as if its process had been killed.
func TestRelease(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 16 * mib})
		device, err := w.group.Activate(w.ctx, "v")
		testcheck.NoError(t, err)
		testcheck.NoError(t, os.WriteFile(device, []byte("data"), 0))
		testcheck.NoError(t, w.Close())
		cfg := lvm2.Config{Directory: filepath.Join(w.directory, "lvm"), SystemID: systemID}

		user, err := os.OpenFile(device, os.O_RDONLY|unix.O_EXCL, 0)
		testcheck.NoError(t, err)
		if err := lvm2.Release(w.ctx, cfg, w.bound(t)...); !errors.Is(err, lvm2.ErrInUse) {
			t.Errorf("released a disk with a volume in use: %v", err)
		}
		if len(w.bound(t)) == 0 {
			t.Error("the disk of a volume in use has no device")
		}
		testcheck.NoError(t, user.Close())
		testcheck.NoError(t, lvm2.Release(w.ctx, cfg, w.bound(t)...))
		if left := w.bound(t); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		testcheck.NoError(t, lvm2.Release(w.ctx, cfg))

		// Nothing on the disks has changed.
		w.restart(t)
		device, err = w.group.Activate(w.ctx, "v")
		testcheck.NoError(t, err)
		data := make([]byte, 4)
		file, err := os.Open(device)
		testcheck.NoError(t, err)
		defer file.Close()
		if _, err := file.Read(data); err != nil || string(data) != "data" {
			t.Errorf("the volume has %q, %v", data, err)
		}
	})
}

// TestReleaseOfAnUnreadableDisk releases disks without metadata, as of a System that was killed while it created them.
func TestReleaseOfAnUnreadableDisk(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		testcheck.NoError(t, w.group.RemoveGroup(w.ctx))
		w.group = nil
		testcheck.NoError(t, w.Close())
		for _, each := range w.bound(t) {
			testcheck.NoError(t, os.WriteFile(each.Device, []byte(strings.Repeat("x", 4096)), 0))
		}
		testcheck.NoError(t, lvm2.Release(w.ctx, lvm2.Config{Directory: filepath.Join(w.directory, "lvm"), SystemID: systemID}, w.bound(t)...))
		if left := w.bound(t); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		testcheck.NoError(t, os.RemoveAll(filepath.Join(w.directory, "a.img")))
		testcheck.NoError(t, os.RemoveAll(filepath.Join(w.directory, "b.img")))
		w.reopen(t)
	})
}
