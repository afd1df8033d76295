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

// bound is a world in which a pod has disk-1, and two of its containers have parts of it.
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

// place is where a container of pod a has part of disk-1.
func (w *world) place(container string) string {
	return filepath.Join(diskRoot, "pods", "a", "volume-subpaths", "disk-1", container, "0")
}

// parts are the containers that have part of disk-1.
func (w *world) parts() []string {
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

// noSubPaths checks that nothing is left of the parts that containers had.
func (w *world) noSubPaths() {
	w.Helper()
	testcheck.Equal(w, "parts", nil, w.parts())
	there, err := w.backend.disk.Exists(filepath.Join(diskRoot, "pods", "a", "volume-subpaths"))
	w.NoError(err)
	testcheck.Equal(w, "there is a directory of parts", false, there)
}

// undone is what was done on the disk and by the plugin to take things away, in order.
func (w *world) undone() []string {
	return slices.DeleteFunc(w.driven(), func(verb string) bool {
		return !strings.Contains(verb, "SubPath") && verb != "TearDown" && verb != "UnmountDevice"
	})
}

// TestSubPathsAreCleanedFirst has a kubelet take away what containers have of a volume before the
// volume, also one that knows of the volume from the disk only, or does not even know which one it
// is.
func TestSubPathsAreCleanedFirst(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(w *world){
		"the kubelet that mounted it": func(w *world) { w.remove("a") },
		"one that finds it": func(w *world) {
			w.restart()
			w.known()
		},
		"one that does not know what it finds": func(w *world) {
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

// TestNoSubPathsTakeNoStep: who has none does not wait for the disk.
func TestNoSubPathsTakeNoStep(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.remove("a")
	w.Run()
	testcheck.Equal(w, "what was done", []string{"TearDown", "UnmountDevice"}, w.undone())
}

// TestBusySubPathKeepsItsVolume mounted and in use, with those of the containers that come after,
// until it is not in use any more.
func TestBusySubPathKeepsItsVolume(t *testing.T) {
	t.Parallel()
	w := bound(t)
	w.NoError(w.backend.disk.MkdirAll(w.place("one") + "/below"))
	w.NoError(w.backend.disk.MountTree(nodefs.NewTree(), "x", w.place("one")+"/below", false))
	w.remove("a")
	w.pass(3 * time.Second)
	testcheck.Equal(w, "parts", []string{"one", "two"}, w.parts())
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

// TestPodComesBackWhileItsSubPathsAreCleaned: its volume stays, and it has it for mounted only when
// that was seen to again.
func TestPodComesBackWhileItsSubPathsAreCleaned(t *testing.T) {
	t.Parallel()
	w := bound(t)
	w.remove("a")
	w.Until("the second one to be unbound", func() bool { return len(w.parts()) == 1 })
	w.add("a", "disk-1")
	w.moveAll("volume populator")
	w.pod("a", false, true)
	w.Run()
	w.noSubPaths()
	w.pod("a", true, true)
	w.calls("0s SetUp disk-1 a")
	w.quiet()
}
