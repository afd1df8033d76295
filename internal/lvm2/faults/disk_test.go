//go:build linux

package faults_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/dm"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// An unreadable disk looks to LVM like a missing one, and its volume group like a missing one. It
// must not be taken for a removed volume.
func TestFailingDiskIsNotRemovedVolume(t *testing.T) {
	w := newWorld(t, 1)
	folder := w.volume(lvm2.Spec{Name: "v"})
	testcheck.NoError(w, write(filepath.Join(folder, "before"), "kept"))

	w.become(0, dm.FailsAll())
	if err := write(filepath.Join(folder, "after"), "lost"); err == nil {
		t.Error("a file was written on a broken disk")
	}
	_, found := w.group.Find(t.Context(), "v")
	_, created := w.group.Create(t.Context(), lvm2.Spec{Name: "w", Size: 4 * mib})
	for what, err := range map[string]error{
		"find": found, "create": created, "remove": w.group.Remove(t.Context(), "v"),
	} {
		if err == nil || errors.Is(err, lvm2.ErrNotFound) || errors.Is(err, lvm2.ErrNoSpace) {
			t.Errorf("%s: got %v, want an error without a statement about the volume", what, err)
		}
	}

	w.become(0, dm.Healthy())
	testcheck.NoError(w, unix.Unmount(folder, 0))
	testcheck.NoError(w, w.group.Check(t.Context()))
	device, err := w.group.Activate(t.Context(), "v")
	testcheck.NoError(w, err)
	w.mount(device, folder)
	w.wantFile(filepath.Join(folder, "before"), "kept")
}

// After a failed write the metadata is unchanged.
func TestFailedWriteKeepsMetadata(t *testing.T) {
	w := newWorld(t, 1)
	_, err := w.group.Create(t.Context(), lvm2.Spec{Name: "v", Size: 4 * mib})
	testcheck.NoError(w, err)
	before, err := w.group.Report(t.Context())
	testcheck.NoError(w, err)

	w.become(0, dm.FailsWrites())
	if _, err := w.group.Create(t.Context(), lvm2.Spec{Name: "w", Size: 4 * mib}); err == nil ||
		errors.Is(err, lvm2.ErrNoSpace) {
		t.Errorf("create: got %v, want an error of the disk", err)
	}
	if err := w.group.Remove(t.Context(), "v"); err == nil {
		t.Error("a volume was removed on a disk that fails writes")
	}

	w.become(0, dm.Healthy())
	testcheck.NoError(w, w.group.Check(t.Context()))
	after, err := w.group.Report(t.Context())
	testcheck.NoError(w, err)
	if words(after.LogicalVolumes) != "v" || after.Free != before.Free {
		t.Errorf("got volumes %q and %d bytes free, want \"v\" and %d", words(after.LogicalVolumes), after.Free,
			before.Free)
	}
	_, err = w.group.Create(t.Context(), lvm2.Spec{Name: "w", Size: 4 * mib})
	testcheck.NoError(w, err)
}

// A mirror serves from the healthy leg, and reports the lost one.
func TestMirrorSurvivesDisk(t *testing.T) {
	w := newWorld(t, 2)
	folder := w.volume(lvm2.Spec{Name: "v", Layout: lvm2.RAID1})
	testcheck.NoError(w, write(filepath.Join(folder, "before"), "kept"))
	w.become(1, dm.FailsAll())
	testcheck.NoError(w, write(filepath.Join(folder, "after"), "kept, too"))
	w.forget()
	w.wantFile(filepath.Join(folder, "before"), "kept")
	w.wantFile(filepath.Join(folder, "after"), "kept, too")

	w.become(1, dm.Healthy())
	volume, err := w.group.Find(t.Context(), "v")
	testcheck.NoError(w, err)
	if volume.Health == "" {
		t.Errorf("the mirror does not report the lost leg: %+v", volume)
	}
}

// After a timeout on a slow disk the outcome is unknown; a retry completes it.
func TestRetryOnSlowDisk(t *testing.T) {
	w := newWorld(t, 1)
	w.become(0, dm.Slow(0, 50*time.Millisecond))
	spec := lvm2.Spec{Name: "v", Size: 4 * mib}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.group.Create(ctx, spec); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	_, err := w.group.Create(t.Context(), spec)
	testcheck.NoError(w, err)
	volumes, err := w.group.List(t.Context())
	testcheck.NoError(w, err)
	if words(volumes) != "v" {
		t.Errorf("there is %q, want \"v\"", words(volumes))
	}
	testcheck.NoError(w, w.group.Check(t.Context()))
}
