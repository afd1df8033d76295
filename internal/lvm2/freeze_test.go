//go:build linux

package lvm2_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// leaveRoom fills the volume group except for some free space.
func (w *world) leaveRoom(t *testing.T, size int64) {
	t.Helper()
	report, err := w.group.Report(w.ctx)
	testcheck.NoError(t, err)
	for i := 0; report.Free > size; i++ {
		w.create(t, lvm2.Spec{
			Name: "filler" + string(rune('a'+i)), Size: min(report.Free-size, report.LargestContiguous()),
		})
		report, err = w.group.Report(w.ctx)
		testcheck.NoError(t, err)
	}
}

// wantVolumes checks the volumes, without those that only fill the volume group.
func (w *world) wantVolumes(t *testing.T, want ...string) {
	t.Helper()
	report, err := w.group.Report(w.ctx)
	testcheck.NoError(t, err)
	got := slices.DeleteFunc(namesOf(report.LogicalVolumes), func(name string) bool { return name[0] == 'f' })
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

// use binds a device as that of a block volume for a pod, until it is undone.
func use(t *testing.T, device string) (undo func()) {
	t.Helper()
	target := filepath.Join(t.TempDir(), "volume")
	testcheck.NoError(t, os.WriteFile(target, nil, 0o600))
	testcheck.NoError(t, unix.Mount(device, target, "", unix.MS_BIND, ""))
	return func() { testcheck.NoError(t, unix.Unmount(target, 0)) }
}

func TestForeignFrozenFileSystem(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 64 * mib})
		w.leaveRoom(t, 100*mib) // for a copy, but not for a snapshot as well
		device := w.activate(t, "v")
		target, unmount := mount(t, device, "ext4", true)
		content := []byte("in memory until it was frozen")
		testcheck.NoError(t, os.WriteFile(filepath.Join(target, "f"), content, 0o600))
		held, err := blockdev.Freeze(device)
		testcheck.NoError(t, err)
		_, err = w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"})
		wantError(t, err, blockdev.ErrFrozen)
		w.wantVolumes(t, "v")
		_, err = w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c", Frozen: true})
		testcheck.NoError(t, err)
		w.wantVolumes(t, "c", "v")
		_, err = blockdev.Freeze(device)
		wantError(t, err, blockdev.ErrFrozen) // as before
		testcheck.NoError(t, held.Thaw())
		unmount()
		target, unmount = mount(t, w.activate(t, "c"), "ext4", false)
		if got, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(got) != string(content) {
			t.Errorf("the copy holds %q, %v", got, err)
		}
		unmount()
	})
}

func TestCopyOfBlockVolumeInUse(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 64 * mib})
		device := w.activate(t, "v")
		fill(t, device, 1)
		undo := use(t, device)
		if w.group.Capabilities().Snapshots {
			_, err := w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"}) // by a temporary snapshot
			testcheck.NoError(t, err)
			w.wantVolumes(t, "c", "v")
			wantFilled(t, w.activate(t, "c"), 1)
			testcheck.NoError(t, w.group.Remove(w.ctx, "c"))
		}
		w.leaveRoom(t, 100*mib)
		_, err := w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"})
		if w.group.Capabilities().Snapshots {
			wantError(t, err, lvm2.ErrNoSpace)
		} else {
			wantError(t, err, lvm2.ErrInUse)
			_, err := w.group.Snapshot(w.ctx, "v", lvm2.Spec{Name: "s"})
			wantError(t, err, lvm2.ErrInUse)
		}
		w.wantVolumes(t, "v")
		_, err = w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c", Frozen: true})
		testcheck.NoError(t, err)
		testcheck.NoError(t, w.group.Remove(w.ctx, "c"))
		undo()
		_, err = w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"})
		testcheck.NoError(t, err)
		wantFilled(t, w.activate(t, "c"), 1)
		w.wantVolumes(t, "c", "v")
	})
}

// A thin volume that is open is copied out of its pool by a snapshot.
func TestCopyOfThinBlockVolumeInUse(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		requireLayout(t, w, lvm2.Thin)
		w.create(t, lvm2.Spec{Name: "pool", Size: 100 * mib, Layout: lvm2.ThinPool})
		w.create(t, lvm2.Spec{Name: "v", Size: 64 * mib, Layout: lvm2.Thin, Pool: "pool"})
		fill(t, w.activate(t, "v"), 1)
		opened, err := os.Open(w.activate(t, "v"))
		testcheck.NoError(t, err)
		defer opened.Close()
		_, err = w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c", Layout: lvm2.Linear})
		testcheck.NoError(t, err)
		w.wantVolumes(t, "c", "pool", "v")
		wantFilled(t, w.activate(t, "c"), 1)
	})
}
