//go:build linux

package lvm2_test

import (
	"os"
	"slices"
	"testing"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// Manual changes are visible at once, even if the metadata keeps its length or returns to an
// earlier state.
func TestReportsAreCurrent(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 8 * mib})
		want := func(name string, tags ...string) {
			t.Helper()
			for range 3 {
				volumes, err := w.group.List(w.ctx)
				testcheck.NoError(t, err)
				if len(volumes) != 1 || volumes[0].Name != name || !slices.Equal(volumes[0].Tags, tags) {
					t.Errorf("listed %+v, want %s with %q", volumes, name, tags)
				}
				if len(volumes) > 0 && len(volumes[0].Tags) > 0 {
					volumes[0].Tags[0] = "a reader's own copy"
				}
			}
		}
		path := w.group.Name() + "/v"
		want("v")
		w.lvm(t, "lvchange", "--addtag", "a", path)
		want("v", "a")
		w.lvm(t, "lvchange", "--addtag", "b", "--deltag", "a", path)
		want("v", "b")
		w.lvm(t, "lvchange", "--addtag", "a", "--deltag", "b", path)
		want("v", "a")
		w.lvm(t, "lvrename", w.group.Name(), "v", "u")
		want("u", "a")
		testcheck.NoError(t, w.group.Tag(w.ctx, "u", nil, []string{"a"}))
		want("u")
	})
}

// Without device-mapper LVM is not asked twice without a change in between.
func TestReadingRunsNoCommand(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		if w.mode != lvm2.Partitions {
			t.Skip("with device-mapper LVM reports the kernel's state")
		}
		w.create(t, lvm2.Spec{Name: "v", Size: 8 * mib})
		testcheck.NoError(t, os.Chmod(w.directory+"/lvm/lock", 0o500))
		testcheck.NoError(t, os.WriteFile(w.directory+"/lvm/lvm.conf", []byte("nonsense {"), 0o600))
		_, err := w.group.Find(w.ctx, "v")
		testcheck.NoError(t, err)
		w.activate(t, "v")
		testcheck.NoError(t, w.group.Deactivate(w.ctx, "v"))
		if err := w.group.Tag(w.ctx, "v", []string{"a"}, nil); err == nil {
			t.Error("a command succeeded that could not")
		}
		w.restart(t) // which rewrites the configuration
	})
}
