package volumemanager_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// bound is a world with disk-1 mounted for a pod, and with subPaths of it in two containers.
func bound(t *testing.T) *world {
	t.Helper()
	w := mounted(t)
	for _, container := range []string{"one", "two"} {
		place := w.place(container)
		w.NoError(w.backend.disk.MkdirAll(place))
		w.NoError(w.backend.disk.MountTree(nodefs.NewTree(), "disk-1", place, false))
	}
	return w
}

// place returns the path of a container's subPath in pod a.
func (w *world) place(container string) string {
	return filepath.Join(diskRoot, "pods", "a", "volume-subpaths", "disk-1", container, "0")
}

// subPaths returns the containers with a subPath of disk-1.
func (w *world) subPaths() []string {
	w.Helper()
	mounts, err := w.backend.disk.Mounts()
	w.NoError(err)
	var containers []string
	for _, m := range mounts {
		if name := filepath.Base(filepath.Dir(m.Path)); w.place(name) == m.Path {
			containers = append(containers, name)
		}
	}
	return containers
}

// noSubPaths checks that no subPaths remain.
func (w *world) noSubPaths() {
	w.Helper()
	testcheck.Equal(w, "parts", nil, w.subPaths())
	there, err := w.backend.disk.Exists(filepath.Join(diskRoot, "pods", "a", "volume-subpaths"))
	w.NoError(err)
	testcheck.Equal(w, "there is a directory of parts", false, there)
}

// undone returns the cleanup operations on the disk and of the plugin, in order.
func (w *world) undone() []string {
	return slices.DeleteFunc(w.driven(), func(verb string) bool {
		return !strings.Contains(verb, "SubPath") && verb != "TearDown" && verb != "UnmountDevice"
	})
}

// TestSubPathsAreCleanedFirst removes subPaths before the volume, even with a kubelet that has
// reconstructed the volume, or could not.
func TestSubPathsAreCleanedFirst(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(w *world){
		"the same kubelet": func(w *world) { w.remove("a") },
		"a kubelet that reconstructs it": func(w *world) {
			w.restart()
			w.known()
		},
		"a kubelet that cannot reconstruct it": func(w *world) {
			w.backend.unreadable["disk-1"] = true
			w.restart()
			w.known()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bound(t)
			before(w)
			w.Run()
			want := []string{"UnbindSubPath", "UnbindSubPath", "RemoveSubPaths", "TearDown", "UnmountDevice"}
			testcheck.Equal(w, "what was done", want, w.undone())
			w.noSubPaths()
			w.pod("a", false, false)
			w.quiet()
		})
	}
}

// TestNoSubPathsTakeNoStep: a pod without subPaths does not wait for the disk.
func TestNoSubPathsTakeNoStep(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.remove("a")
	w.Run()
	testcheck.Equal(w, "what was done", []string{"TearDown", "UnmountDevice"}, w.undone())
}

// TestBusySubPathKeepsItsVolume mounted and in use until the subPath is unused, with those of the
// following containers.
func TestBusySubPathKeepsItsVolume(t *testing.T) {
	t.Parallel()
	w := bound(t)
	w.NoError(w.backend.disk.MkdirAll(w.place("one") + "/below"))
	w.NoError(w.backend.disk.MountTree(nodefs.NewTree(), "x", w.place("one")+"/below", false))
	w.remove("a")
	w.pass(3 * time.Second)
	testcheck.Equal(w, "parts", []string{"one", "two"}, w.subPaths())
	w.calls()
	w.pod("a", false, true)
	w.inUse("disk-1")
	tries := []string{}
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindDriver && r.Verb == "UnbindSubPath" {
			tries = append(tries, r.At.String())
		}
	}
	testcheck.Equal(w, "tries", []string{"0s", "500ms", "1.5s"}, tries)
	w.NoError(w.backend.disk.Unmount(w.place("one") + "/below"))
	w.Run()
	w.noSubPaths()
	w.pod("a", false, false)
	w.inUse()
	w.quiet()
}

// TestPodIsAddedAgainWhileItsSubPathsAreCleaned: its volume stays, and counts as mounted only after
// another mount.
func TestPodIsAddedAgainWhileItsSubPathsAreCleaned(t *testing.T) {
	t.Parallel()
	w := bound(t)
	w.remove("a")
	w.Until("the second one to be unbound", func() bool { return len(w.subPaths()) == 1 })
	w.add("a", "disk-1")
	w.moveAll("volume populator")
	w.pod("a", false, true)
	w.Run()
	w.noSubPaths()
	w.pod("a", true, true)
	w.calls("0s SetUp disk-1 a")
	w.quiet()
}
