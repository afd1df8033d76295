//go:build linux

package lvm2_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

func TestVolumeLifecycle(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		volume := w.create(t, lvm2.Spec{Name: "v", Size: 50*mib + 1, Tags: []string{"volsim.pvc_uid=1"}})
		if volume.Size != 52*mib || volume.Layout != lvm2.Linear || !volume.HasTags("volsim.pvc_uid=1") ||
			volume.ReadOnly {
			t.Errorf("created %+v", volume)
		}
		device := w.activate(t, "v")
		if again := w.activate(t, "v"); again != device {
			t.Errorf("active as %s and as %s", device, again)
		}
		target, unmount := mount(t, device, "ext4", true)
		testcheck.NoError(t, os.WriteFile(filepath.Join(target, "f"), []byte("kept"), 0o600))

		active, err := w.group.Active(w.ctx, "v")
		testcheck.NoError(t, err)
		if active.Device != device || active.Size != 52*mib || !active.InUse ||
			!slices.Equal(active.Mounts, []string{target}) {
			t.Errorf("active: %+v", active)
		}
		wantError(t, w.group.Deactivate(w.ctx, "v"), lvm2.ErrInUse)
		wantError(t, w.group.Remove(w.ctx, "v"), lvm2.ErrInUse)

		volume, err = w.group.Extend(w.ctx, "v", 80*mib)
		testcheck.NoError(t, err)
		active, err = w.group.Active(w.ctx, "v")
		testcheck.NoError(t, err)
		if volume.Size != 80*mib || active.Size != 80*mib {
			t.Errorf("extended to %d bytes, device of %d, want 80 MiB", volume.Size, active.Size)
		}
		unmount()
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "v"))
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "v"))
		active, err = w.group.Active(w.ctx, "v")
		testcheck.NoError(t, err)
		if active.Device != "" {
			t.Errorf("active after it was deactivated: %+v", active)
		}
		target, unmount = mount(t, w.activate(t, "v"), "ext4", false)
		if content, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(content) != "kept" {
			t.Errorf("read %q, %v", content, err)
		}
		unmount()
		testcheck.NoError(t, w.group.Remove(w.ctx, "v", "never-was"))
		testcheck.NoError(t, w.group.Remove(w.ctx, "v"))
		_, err = w.group.Find(w.ctx, "v")
		wantError(t, err, lvm2.ErrNotFound)
	})
}

func TestCreateIsIdempotent(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		spec := lvm2.Spec{Name: "v", Size: 10 * mib, Tags: []string{"uid=1"}}
		first := w.create(t, spec)
		if again := w.create(t, spec); again.UUID != first.UUID {
			t.Errorf("created twice: %s and %s", first.UUID, again.UUID)
		}
		for _, other := range []lvm2.Spec{
			{Name: "v", Size: 10 * mib, Tags: []string{"uid=2"}},
			{Name: "v", Size: 100 * mib, Tags: []string{"uid=1"}},
		} {
			_, err := w.group.Create(w.ctx, other)
			wantError(t, err, lvm2.ErrExists)
		}
	})
}

func TestListAndTags(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "a", Size: 4 * mib, Tags: []string{"k8s.io/pvc=ns/claim", "x"}})
		w.create(t, lvm2.Spec{Name: "b", Size: 4 * mib, Tags: []string{"x"}})
		listed := func(tags ...string) []string {
			volumes, err := w.group.List(w.ctx, tags...)
			testcheck.NoError(t, err)
			return namesOf(volumes)
		}
		if got := fmt.Sprint(listed(), listed("x"), listed("x", "k8s.io/pvc=ns/claim"),
			listed("none")); got != "[a b] [a b] [a] []" {
			t.Errorf("listed %s", got)
		}
		testcheck.NoError(t, w.group.Tag(w.ctx, "b", []string{"y"}, []string{"x"}))
		if got := fmt.Sprint(listed("x"), listed("y")); got != "[a] [b]" {
			t.Errorf("after tagging: %s", got)
		}
		testcheck.NoError(t, w.group.Rename(w.ctx, "b", "c"))
		testcheck.NoError(t, w.group.Rename(w.ctx, "b", "c"))
		wantError(t, w.group.Rename(w.ctx, "a", "c"), lvm2.ErrExists)
		wantError(t, w.group.Rename(w.ctx, "none", "n"), lvm2.ErrNotFound)
		wantError(t, w.group.Tag(w.ctx, "none", []string{"y"}, nil), lvm2.ErrNotFound)
		if got := listed(); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("after renaming: %v", got)
		}
	})
}

func TestCreateErrors(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		for _, each := range []struct {
			spec lvm2.Spec
			want error
		}{
			{lvm2.Spec{Name: "v", Size: 1 << 40}, lvm2.ErrNoSpace},
			{lvm2.Spec{Name: "a b", Size: mib}, lvm2.ErrInvalidArgument},
			{lvm2.Spec{Name: "-ay", Size: mib}, lvm2.ErrInvalidArgument},
			{lvm2.Spec{Name: "snapshot1", Size: mib}, lvm2.ErrInvalidArgument},
			{lvm2.Spec{Name: "v", Size: 0}, lvm2.ErrInvalidArgument},
			{lvm2.Spec{Name: "v", Size: mib, Tags: []string{"a b"}}, lvm2.ErrInvalidArgument},
			{lvm2.Spec{Name: "v", Size: mib, Tags: []string{"-a"}}, lvm2.ErrInvalidArgument},
			{lvm2.Spec{Name: "v", Size: mib, Layout: "raid5"}, lvm2.ErrUnsupported},
		} {
			_, err := w.group.Create(w.ctx, each.spec)
			wantError(t, err, each.want)
		}
		volumes, err := w.group.List(w.ctx)
		testcheck.NoError(t, err)
		if len(volumes) > 0 {
			t.Errorf("refused volumes exist: %+v", volumes)
		}
		_, err = w.VolumeGroup(w.ctx, "none")
		wantError(t, err, lvm2.ErrNoGroup)
		_, err = w.group.Extend(w.ctx, "none", mib)
		wantError(t, err, lvm2.ErrNotFound)
		_, err = w.group.Activate(w.ctx, "none")
		wantError(t, err, lvm2.ErrNotFound)
	})
}

// With device-mapper a volume may have several segments.
func TestExtendNextToNeighbor(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 8 * mib})
		w.create(t, lvm2.Spec{Name: "neighbour", Size: 8 * mib})
		w.activate(t, "v")
		w.activate(t, "neighbour")
		held, err := os.Open(w.activate(t, "v"))
		testcheck.NoError(t, err)
		defer held.Close()
		volume, err := w.group.Extend(w.ctx, "v", 40*mib)
		if w.group.Capabilities().NonContiguous {
			testcheck.NoError(t, err)
			if len(volume.Extents) != 2 {
				t.Errorf("grown to %+v, want two pieces", volume.Extents)
			}
			return
		}
		wantError(t, err, lvm2.ErrNotContiguous)
		volume, err = w.group.Find(w.ctx, "v")
		testcheck.NoError(t, err)
		if volume.Size != 8*mib {
			t.Errorf("is of %d bytes after an extension that was refused", volume.Size)
		}
	})
}

func TestRestartFindsActiveVolumes(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "u", Size: 8 * mib})
		w.create(t, lvm2.Spec{Name: "v", Size: 8 * mib})
		device := w.activate(t, "v")
		held, err := os.Open(device)
		testcheck.NoError(t, err)
		disks := w.Disks()
		w.restart(t)
		if !slices.Equal(w.Disks(), disks) {
			t.Errorf("disks %+v, were %+v", w.Disks(), disks)
		}
		active, err := w.group.Active(w.ctx, "v")
		testcheck.NoError(t, err)
		if active.Device != device || w.activate(t, "v") != device {
			t.Errorf("active as %q, was %q", active.Device, device)
		}
		wantError(t, w.group.Remove(w.ctx, "v", "u"), lvm2.ErrInUse)
		testcheck.NoError(t, held.Close())
		testcheck.NoError(t, w.group.Remove(w.ctx, "v", "u"))
	})
}

func TestMachineRestart(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 8 * mib})
		device := w.activate(t, "v")
		testcheck.NoError(t, os.WriteFile(device, []byte("content"), 0))
		held, err := os.Open(device)
		testcheck.NoError(t, err)
		wantError(t, w.Detach(w.ctx), lvm2.ErrInUse)
		testcheck.NoError(t, held.Close())
		testcheck.NoError(t, w.Detach(w.ctx))
		_, err = w.group.Report(w.ctx)
		wantError(t, err, lvm2.ErrNoGroup)
		w.restart(t)
		content := make([]byte, 7)
		opened, err := os.Open(w.activate(t, "v"))
		testcheck.NoError(t, err)
		defer opened.Close()
		if _, err := opened.Read(content); err != nil || string(content) != "content" {
			t.Errorf("read %q, %v", content, err)
		}
	})
}

func TestRemovedContentIsUnreadable(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		before := blocks(t, w)
		w.create(t, lvm2.Spec{Name: "v", Size: 32 * mib})
		opened, err := os.OpenFile(w.activate(t, "v"), os.O_WRONLY|unix.O_SYNC, 0)
		testcheck.NoError(t, err)
		for range 32 {
			_, err := opened.Write(slices.Repeat([]byte("secret!!"), int(mib)/8))
			testcheck.NoError(t, err)
		}
		testcheck.NoError(t, opened.Close())
		if during := blocks(t, w); during < before+60000 {
			t.Fatalf("the disks hold %d blocks, held %d: the content is not on them", during, before)
		}
		testcheck.NoError(t, w.group.Remove(w.ctx, "v"))
		if after := blocks(t, w); after > before+1000 {
			t.Errorf("the disks hold %d blocks, held %d before the volume", after, before)
		}
	})
}

// blocks returns the number of blocks of 512 bytes that the files of the disks occupy.
func blocks(t *testing.T, w *world) int64 {
	t.Helper()
	var sum int64
	for _, disk := range w.Disks() {
		var status unix.Stat_t
		testcheck.NoError(t, unix.Stat(disk.Path, &status))
		sum += status.Blocks
	}
	return sum
}

func TestHundredConcurrentVolumes(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		count := often(100)
		var group sync.WaitGroup
		failed := make([]error, count)
		for i := range count {
			group.Go(func() {
				_, failed[i] = w.group.Create(w.ctx, lvm2.Spec{Name: fmt.Sprintf("v%d", i), Size: 4 * mib})
			})
		}
		group.Wait()
		var names []string
		for i, err := range failed {
			testcheck.NoError(t, err)
			names = append(names, fmt.Sprintf("v%d", i))
		}
		testcheck.NoError(t, w.group.Check(w.ctx))
		volumes, err := w.group.List(w.ctx)
		testcheck.NoError(t, err)
		if len(volumes) != count {
			t.Errorf("there are %d volumes, want %d", len(volumes), count)
		}
		testcheck.NoError(t, w.group.Remove(w.ctx, names...))
	})
}

// Programs such as udev, which open a device briefly, are waited for.
func TestBrieflyOpenDevice(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		if w.mode != lvm2.Partitions {
			t.Skip("with device-mapper lvchange does the waiting")
		}
		w.create(t, lvm2.Spec{Name: "v", Size: 8 * mib})
		held, err := os.Open(w.activate(t, "v"))
		testcheck.NoError(t, err)
		closed := make(chan error)
		time.AfterFunc(50*time.Millisecond, func() { closed <- held.Close() })
		done := make(chan error)
		go func() { done <- w.group.Deactivate(w.ctx, "v") }()
		testcheck.NoError(t, <-closed)
		testcheck.NoError(t, <-done)
	})
}

// A volume that is being created is not visible.
func TestUnfinishedVolume(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: mib, Tags: []string{"volsim.unfinished"}})
		_, err := w.group.Find(w.ctx, "v")
		wantError(t, err, lvm2.ErrNotFound)
		_, err = w.group.Activate(w.ctx, "v")
		wantError(t, err, lvm2.ErrNotFound)
		_, err = w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"})
		wantError(t, err, lvm2.ErrNotFound)
		if volumes, err := w.group.List(w.ctx); err != nil || len(volumes) > 0 {
			t.Errorf("listed %+v, %v", volumes, err)
		}
		if volume := w.create(t, lvm2.Spec{Name: "v", Size: mib}); len(volume.Tags) > 0 { // from the start
			t.Errorf("created %+v", volume)
		}
		w.create(t, lvm2.Spec{Name: "c", Size: mib, Tags: []string{"volsim.unfinished"}})
		if volume, err := w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"}); err != nil || len(volume.Tags) > 0 {
			t.Errorf("cloned %+v, %v", volume, err)
		}
	})
}
