//go:build linux

package lvm2_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// fill writes a pattern to the start and the middle of a device, with a hole between.
func fill(t testing.TB, device string, pattern byte) {
	t.Helper()
	opened, err := os.OpenFile(device, os.O_RDWR, 0)
	testcheck.NoError(t, err)
	defer opened.Close()
	for _, at := range []int64{0, 5 * mib} {
		_, err := opened.WriteAt(bytes.Repeat([]byte{pattern}, int(mib)), at)
		testcheck.NoError(t, err)
	}
	testcheck.NoError(t, opened.Sync())
}

// wantFilled checks the data of fill, and the zeros between.
func wantFilled(t testing.TB, device string, pattern byte) {
	t.Helper()
	opened, err := os.Open(device)
	testcheck.NoError(t, err)
	defer opened.Close()
	for at, want := range map[int64]byte{0: pattern, mib: 0, 4 * mib: 0, 5 * mib: pattern, 6 * mib: 0} {
		part := make([]byte, mib)
		_, err := opened.ReadAt(part, at)
		testcheck.NoError(t, err)
		if !bytes.Equal(part, bytes.Repeat([]byte{want}, int(mib))) {
			t.Errorf("at %d MiB of %s there is not only %d", at/mib, device, want)
		}
	}
}

func TestSnapshotsAndClones(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) { copiesDiverge(t, w, lvm2.Spec{Name: "v", Size: 32 * mib}) })
}

func TestThinSnapshotsAndClones(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		requireLayout(t, w, lvm2.Thin)
		w.create(t, lvm2.Spec{Name: "pool", Size: 100 * mib, Layout: lvm2.ThinPool})
		copiesDiverge(t, w, lvm2.Spec{Name: "v", Size: 400 * mib, Layout: lvm2.Thin, Pool: "pool"})
		for name, layout := range map[string]lvm2.Layout{"pool": lvm2.ThinPool, "v": lvm2.Thin} {
			if volume, err := w.group.Find(w.ctx, name); err != nil || volume.Layout != layout ||
				volume.DataPercent == 0 {
				t.Errorf("%s is %+v, %v", name, volume, err)
			}
		}
		wantError(t, w.group.Remove(w.ctx, "pool"), lvm2.ErrInUse)
		report, err := w.group.Report(w.ctx)
		testcheck.NoError(t, err)
		if use, ok := report.PoolUsage("pool"); !ok || use.Size != 100*mib || use.Provisioned != 816*mib ||
			use.Used < 2*mib {
			t.Errorf("use of the pool: %+v, %v", use, ok)
		}
	})
}

// copiesDiverge leaves a volume v with a clone c.
func copiesDiverge(t *testing.T, w *world, spec lvm2.Spec) {
	w.create(t, spec)
	fill(t, w.activate(t, "v"), 1)
	if spec.Layout != lvm2.Thin {
		_, err := w.group.Snapshot(w.ctx, "none", lvm2.Spec{Name: "s"})
		wantError(t, err, lvm2.ErrNotFound)
	}
	snapshot, err := w.group.Snapshot(w.ctx, "v", lvm2.Spec{Name: "s", Tags: []string{"uid=s"}})
	testcheck.NoError(t, err)
	if !snapshot.ReadOnly || !snapshot.HasTags("uid=s") || snapshot.HasTags("volsim.unfinished") {
		t.Errorf("snapshot %+v", snapshot)
	}
	fill(t, w.activate(t, "v"), 2)
	clone, err := w.group.Clone(w.ctx, "s", lvm2.Spec{Name: "c", Size: spec.Size + 16*mib, Tags: []string{"uid=c"}})
	testcheck.NoError(t, err)
	if clone.ReadOnly || clone.Size != spec.Size+16*mib || clone.Layout != spec.Layout && clone.Layout != lvm2.Linear ||
		clone.Pool != spec.Pool {
		t.Errorf("clone %+v", clone)
	}
	wantFilled(t, w.activate(t, "s"), 1)
	wantFilled(t, w.activate(t, "c"), 1)
	wantFilled(t, w.activate(t, "v"), 2)
	fill(t, w.activate(t, "c"), 3)
	wantFilled(t, w.activate(t, "s"), 1)
	if opened, err := os.OpenFile(w.activate(t, "s"), os.O_WRONLY, 0); err == nil {
		if _, err := opened.Write([]byte("x")); err == nil && opened.Sync() == nil {
			t.Error("a snapshot could be written to")
		}
		opened.Close()
	}
	again, err := w.group.Snapshot(w.ctx, "v", lvm2.Spec{Name: "s", Tags: []string{"uid=s"}})
	testcheck.NoError(t, err)
	if again.UUID != snapshot.UUID {
		t.Error("a snapshot was created twice")
	}
	_, err = w.group.Snapshot(w.ctx, "v", lvm2.Spec{Name: "s", Tags: []string{"uid=another"}})
	wantError(t, err, lvm2.ErrExists)
	_, err = w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "s"})
	wantError(t, err, lvm2.ErrExists)
	_, err = w.group.Snapshot(w.ctx, "v", lvm2.Spec{Name: "c", Tags: []string{"uid=s"}})
	wantError(t, err, lvm2.ErrExists)
	testcheck.NoError(t, w.group.Deactivate(w.ctx, "c"))
	testcheck.NoError(t, w.group.Remove(w.ctx, "s"))
	wantFilled(t, w.activate(t, "c"), 3)
}

func TestMountedVolumeIsCopiedConsistently(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 64 * mib})
		target, unmount := mount(t, w.activate(t, "v"), "ext4", true)
		testcheck.NoError(t, os.WriteFile(filepath.Join(target, "f"), []byte("in memory only"), 0o600))
		_, err := w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"})
		testcheck.NoError(t, err)
		if report, err := w.group.Report(w.ctx); err != nil || len(report.LogicalVolumes) != 2 {
			t.Errorf("there are %+v, %v", report, err)
		}
		testcheck.NoError(t, os.WriteFile(filepath.Join(target, "f"), []byte("it continues"), 0o600))
		unmount()
		target, unmount = mount(t, w.activate(t, "c"), "ext4", false)
		if content, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(content) != "in memory only" {
			t.Errorf("the copy holds %q, %v", content, err)
		}
		unmount()
	})
}

func requireLayout(t *testing.T, w *world, layout lvm2.Layout) {
	t.Helper()
	for _, each := range w.group.Capabilities().Layouts {
		if each == layout {
			return
		}
	}
	_, err := w.group.Create(w.ctx, lvm2.Spec{Name: "v", Size: mib, Layout: layout, Pool: "p", Stripes: 2})
	wantError(t, err, lvm2.ErrUnsupported)
	t.Skipf("%s volumes need device-mapper", layout)
}

// Without device-mapper an inactive volume moves to free space in order to grow.
func TestInactiveVolumeIsRelocatedToGrow(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 8 * mib, Tags: []string{"uid=v"}})
		w.create(t, lvm2.Spec{Name: "neighbour", Size: 8 * mib})
		fill(t, w.activate(t, "v"), 7)
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "v"))
		volume, err := w.group.Extend(w.ctx, "v", 100*mib)
		testcheck.NoError(t, err)
		if volume.Size != 100*mib || !volume.HasTags("uid=v") || len(volume.Tags) != 1 || volume.Name != "v" {
			t.Errorf("moved: %+v", volume)
		}
		wantFilled(t, w.activate(t, "v"), 7)
		volumes, err := w.group.List(w.ctx)
		testcheck.NoError(t, err)
		if len(volumes) != 2 {
			t.Errorf("there are %q", namesOf(volumes))
		}
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "v"))
		_, err = w.group.Extend(w.ctx, "v", 400*mib)
		if !w.group.Capabilities().NonContiguous {
			wantError(t, err, lvm2.ErrNotContiguous)
		}
	})
}

func TestLayouts(t *testing.T) {
	for _, spec := range []lvm2.Spec{
		{Name: "v", Size: 32 * mib, Layout: lvm2.Striped, Stripes: 2},
		{Name: "v", Size: 32 * mib, Layout: lvm2.RAID1, Mirrors: 1},
	} {
		t.Run(string(spec.Layout), func(t *testing.T) {
			eachMode(t, func(t *testing.T, w *world) {
				requireLayout(t, w, spec.Layout)
				personalities, _ := os.ReadFile("/proc/mdstat")
				if spec.Layout == lvm2.RAID1 && bytes.HasPrefix(personalities, []byte("Personalities")) &&
					!bytes.Contains(personalities, []byte("[raid1]")) {
					t.Skip("needs the kernel's module raid1")
				}
				volume, err := w.group.Create(w.ctx, spec)
				if errors.Is(err, lvm2.ErrUnsupported) {
					t.Skipf("needs a target of device-mapper: %v", err)
				}
				testcheck.NoError(t, err)
				if volume.Layout != spec.Layout || volume.Size != spec.Size {
					t.Errorf("created %+v", volume)
				}
				fill(t, w.activate(t, "v"), 9)
				volume, err = w.group.Extend(w.ctx, "v", 64*mib)
				testcheck.NoError(t, err)
				if volume.Size != 64*mib {
					t.Errorf("extended %+v", volume)
				}
				wantFilled(t, w.activate(t, "v"), 9)
				largest, err := w.group.Largest(w.ctx, spec)
				testcheck.NoError(t, err)
				spec.Name, spec.Size = "all", largest
				w.create(t, spec)
			})
		})
	}
}

func TestLargest(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "a", Size: 100 * mib})
		w.create(t, lvm2.Spec{Name: "b", Size: 40 * mib})
		testcheck.NoError(t, w.group.Remove(w.ctx, "a")) // a hole before b
		largest, err := w.group.Largest(w.ctx, lvm2.Spec{})
		testcheck.NoError(t, err)
		_, err = w.group.Create(w.ctx, lvm2.Spec{Name: "c", Size: largest + 1})
		if !errors.Is(err, lvm2.ErrNoSpace) && !errors.Is(err, lvm2.ErrNotContiguous) {
			t.Errorf("one byte more than the largest volume: %v", err)
		}
		w.create(t, lvm2.Spec{Name: "c", Size: largest})
	})
}

// A copy occupies what its origin contains, not its size; if files can share blocks, it occupies
// nothing.
func TestSpaceOfCopies(t *testing.T) {
	requireDevices(t)
	if !slices.Contains(modes(), lvm2.Partitions) {
		t.Skip("with device-mapper volumes are copied by their devices")
	}
	for _, test := range []struct {
		fsType  string
		most    int64 // blocks of 512 bytes
		options []string
	}{
		{"ext4", 6 * 2048, nil},
		{"xfs", 512, []string{"-m", "reflink=1"}},
	} {
		t.Run(test.fsType, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "store")
			testcheck.NoError(t, os.WriteFile(store, nil, 0o600))
			testcheck.NoError(t, os.Truncate(store, 1024*mib))
			if output, err := run(t, "mkfs."+test.fsType, append(test.options, "-q", store)...); err != nil {
				t.Skipf("needs mkfs.%s: %v: %s", test.fsType, err, output)
			}
			node, err := loopdev.Bind(t.Context(), store, "volsim:lvm2 test", false)
			testcheck.NoError(t, err)
			t.Cleanup(func() { unbind(t, store) })
			target, _ := mount(t, node, test.fsType, false)
			w := newWorldIn(t, lvm2.Partitions, target)
			w.create(t, lvm2.Spec{Name: "v", Size: 64 * mib})
			fill(t, w.activate(t, "v"), 1)
			before := used(t, target)
			_, err = w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"})
			testcheck.NoError(t, err)
			if took := used(t, target) - before; took > test.most {
				t.Errorf("a copy of 2 MiB in 64 took %d blocks, want at most %d", took, test.most)
			}
			fill(t, w.activate(t, "v"), 2)
			wantFilled(t, w.activate(t, "c"), 1)
		})
	}
}

// used returns the number of used blocks of 512 bytes in a file system.
func used(t *testing.T, target string) int64 {
	t.Helper()
	directory, err := os.Open(target)
	testcheck.NoError(t, err)
	defer directory.Close()
	testcheck.NoError(t, unix.Syncfs(int(directory.Fd())))
	var status unix.Statfs_t
	testcheck.NoError(t, unix.Statfs(target, &status))
	return int64(status.Blocks-status.Bfree) * status.Bsize / 512
}
