package podfiles_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/podfiles"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

const (
	root      = "/kubelet"
	volumeDir = root + "/pods/uid-1/volumes/kubernetes.io~configmap/config"
)

// A world is a kubelet's disk, an API server with a config map, and a pod that uses it.
type world struct {
	*testing.T
	host   *sim.Stepped
	server *fake.Server
	disk   *nodefs.Memory
	pod    *corev1.Pod
}

func newWorld(t *testing.T) *world {
	t.Helper()
	host := sim.NewStepped(sim.SteppedConfig{})
	t.Cleanup(host.Close)
	w := &world{
		T: t, host: host, server: fake.NewServer(fake.Config{Now: host.Now}), disk: nodefs.NewMemory(root),
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "uid-1"}},
	}
	return w
}

// put makes the config map have this data.
func (w *world) put(data map[string]string) {
	w.Helper()
	client := w.server.Client(sim.DirectCaller()).CoreV1().ConfigMaps("default")
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: data}
	_, err := client.Create(context.Background(), o, metav1.CreateOptions{})
	if err != nil {
		_, err = client.Update(context.Background(), o, metav1.UpdateOptions{})
	}
	testcheck.NoError(w, err)
}

// volume returns the pod's volume of the config map.
func volume() *plugins.Spec {
	return &plugins.Spec{Volume: &corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "config"}, DefaultMode: ptr.To[int32](0o644),
		},
	}}}
}

// run calls something of the plugin of a volume, in a task of a kubelet with this disk.
func (w *world) run(disk nodefs.FS, spec *plugins.Spec, do func(ctx context.Context, m plugins.Mounter) error) error {
	w.Helper()
	process := w.host.Process("kubelet")
	var manager plugins.Manager
	testcheck.NoError(w, manager.Register(podfiles.Plugins(podfiles.Config{
		Disk:   podfiles.Disk{Process: process, FS: disk, Root: root},
		Client: w.server.Client(process), Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")},
	})...))
	kind, err := manager.FindBySpec(spec)
	testcheck.NoError(w, err)
	err = errors.New("the task did not end")
	process.Spawn("task", func(ctx context.Context) { err = do(ctx, kind.Mounter) })
	for w.host.Step() {
	}
	return err
}

func (w *world) setUp(disk nodefs.FS, spec *plugins.Spec, use plugins.MountOptions) error {
	w.Helper()
	return w.run(disk, spec, func(ctx context.Context, m plugins.Mounter) error { return m.SetUp(ctx, spec, w.pod, use) })
}

func (w *world) tearDown(disk nodefs.FS, spec *plugins.Spec) error {
	w.Helper()
	return w.run(disk, spec, func(ctx context.Context, m plugins.Mounter) error {
		return m.TearDown(ctx, spec.Name(), w.pod.UID)
	})
}

// files returns what a container reads: the content of every visible file.
func files(disk nodefs.FS) map[string]string {
	names, err := disk.ReadDir(volumeDir)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(name, "..") {
			continue
		}
		if data, err := disk.ReadFile(path.Join(volumeDir, name)); err == nil {
			found[name] = string(data)
		}
	}
	return found
}

// errKilled is the error of each change of the disk after the kubelet was killed.
var errKilled = errors.New("killed")

// A mortal is a disk whose kubelet is killed before a change. It calls check after each change.
type mortal struct {
	nodefs.FS
	left  int // changes until it is killed
	check func()
}

func (m *mortal) change(do func() error) error {
	if m.left == 0 {
		return errKilled
	}
	m.left--
	defer m.check()
	return do()
}

func (m *mortal) MkdirAll(path string) error {
	return m.change(func() error { return m.FS.MkdirAll(path) })
}

func (m *mortal) WriteFile(path string, data []byte) error {
	return m.change(func() error { return m.FS.WriteFile(path, data) })
}

func (m *mortal) Symlink(target, path string) error {
	return m.change(func() error { return m.FS.Symlink(target, path) })
}

func (m *mortal) Remove(path string) error {
	return m.change(func() error { return m.FS.Remove(path) })
}

func (m *mortal) RemoveAll(path string) error {
	return m.change(func() error { return m.FS.RemoveAll(path) })
}

func (m *mortal) Chmod(path string, mode fs.FileMode) error {
	return m.change(func() error { return m.FS.Chmod(path, mode) })
}

func (m *mortal) Rename(from, to string) error {
	return m.change(func() error { return m.FS.Rename(from, to) })
}

// TestKilledKubelet kills a kubelet before each change that an update makes. At any time a container
// reads only the old files or only the new ones, apart from names that were added or removed. The
// next kubelet completes the update.
func TestKilledKubelet(t *testing.T) {
	before := map[string]string{"color": "red", "shape": "round", "old": "1"}
	after := map[string]string{"color": "blue", "shape": "square", "new": "2"}
	changes := 0
	for killed := true; killed; changes++ {
		t.Run(fmt.Sprintf("after %d changes", changes), func(t *testing.T) {
			w := newWorld(t)
			w.put(before)
			testcheck.NoError(t, w.setUp(w.disk, volume(), plugins.MountOptions{}))
			w.put(after)
			disk := &mortal{FS: w.disk, left: changes, check: func() {
				seen := files(w.disk)
				if old := maps.Equal(only(seen, "color", "shape"), only(before, "color", "shape")); !old &&
					!maps.Equal(only(seen, "color", "shape"), only(after, "color", "shape")) {
					t.Errorf("a container reads neither the old files nor the new ones: %v", seen)
				}
			}}
			killed = errors.Is(w.setUp(disk, volume(), plugins.MountOptions{Remount: true}), errKilled)
			testcheck.NoError(t, w.setUp(w.disk, volume(), plugins.MountOptions{Reconstructed: true}))
			if diff := cmp.Diff(after, files(w.disk)); diff != "" {
				t.Errorf("after the restart (-want +got):\n%s", diff)
			}
			testcheck.NoError(t, w.tearDown(w.disk, volume()))
			if left := w.left(); len(left) > 0 {
				t.Errorf("left after TearDown: %v", left)
			}
		})
	}
	if changes < 10 {
		t.Errorf("an update makes only %d changes", changes)
	}
}

// only returns the entries of some keys.
func only(all map[string]string, keys ...string) map[string]string {
	some := map[string]string{}
	for _, key := range keys {
		if value, ok := all[key]; ok {
			some[key] = value
		}
	}
	return some
}

// left returns the files, links and volumes on the disk.
func (w *world) left() []string {
	var left []string
	var visit func(dir string)
	visit = func(dir string) {
		names, err := w.disk.ReadDir(dir)
		testcheck.NoError(w, err)
		for _, name := range names {
			full := path.Join(dir, name)
			info, err := w.disk.Stat(full)
			testcheck.NoError(w, err)
			if !info.Mode.IsDir() || full == volumeDir {
				left = append(left, full)
			} else {
				visit(full)
			}
		}
	}
	visit(root)
	return left
}

// TestFailedUpdateKeepsTheFiles has an update fail whose path is invalid. A pod that runs keeps its
// files; one that starts has none.
func TestFailedUpdateKeepsTheFiles(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{"color": "red"})
	spec := volume()
	testcheck.NoError(t, w.setUp(w.disk, spec, plugins.MountOptions{}))
	spec.Volume.ConfigMap.Items = []corev1.KeyToPath{{Key: "color", Path: "..up"}}
	if err := w.setUp(w.disk, spec, plugins.MountOptions{Remount: true}); err == nil {
		t.Fatal("a path that begins with .. was accepted")
	}
	if got := files(w.disk); !maps.Equal(got, map[string]string{"color": "red"}) {
		t.Errorf("the pod has %v", got)
	}
	testcheck.NoError(t, w.tearDown(w.disk, spec))
	if err := w.setUp(w.disk, spec, plugins.MountOptions{}); err == nil {
		t.Fatal("a path that begins with .. was accepted")
	}
	if left := w.left(); len(left) > 0 {
		t.Errorf("left by a failed SetUp: %v", left)
	}
}

// TestInvalidPaths has one row for each row of upstream's TestValidatePath.
func TestInvalidPaths(t *testing.T) {
	for _, tt := range []struct {
		path  string
		valid bool
	}{
		{"i/am/well/behaved.txt", true},
		{"keepyourheaddownandfollowtherules.txt", true},
		{strings.Repeat("a/", 2050), false},
		{strings.Repeat("a", 256), false},
		{"/dev/null", false},
		{"..sneaky.txt", false},
		{"hello/there/../../../../../../etc/passwd", false},
		{"..data", false},
		{"", false},
	} {
		w := newWorld(t)
		w.put(map[string]string{"k": "v"})
		spec := volume()
		spec.Volume.ConfigMap.Items = []corev1.KeyToPath{{Key: "k", Path: tt.path}}
		if err := w.setUp(w.disk, spec, plugins.MountOptions{}); (err == nil) != tt.valid {
			t.Errorf("path %.40q: %v", tt.path, err)
		}
	}
}

// TestUnchangedVolumeIsNotTouched counts the calls of a second SetUp.
func TestUnchangedVolumeIsNotTouched(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{"a": "1"})
	testcheck.NoError(t, w.setUp(w.disk, volume(), plugins.MountOptions{}))
	disk := &mortal{FS: w.disk, check: func() {}}
	testcheck.NoError(t, w.setUp(disk, volume(), plugins.MountOptions{Remount: true}))
}

// TestEmptyDirInMemory mounts memory, once, and removes it.
func TestEmptyDirInMemory(t *testing.T) {
	w := newWorld(t)
	spec := &plugins.Spec{Volume: &corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
	}}}
	for _, remount := range []bool{false, true} {
		testcheck.NoError(t, w.setUp(w.disk, spec, plugins.MountOptions{Remount: remount}))
		mounts, err := w.disk.Mounts()
		testcheck.NoError(t, err)
		if len(mounts) != 1 || mounts[0].FSType != "tmpfs" {
			t.Errorf("mounts %v", mounts)
		}
	}
	w.disk.Reset() // the node boots: the marker stays, the mount does not
	testcheck.NoError(t, w.setUp(w.disk, spec, plugins.MountOptions{Reconstructed: true}))
	mounts, err := w.disk.Mounts()
	if err != nil || len(mounts) != 1 {
		t.Errorf("mounts after a boot: %v, %v", mounts, err)
	}
	testcheck.NoError(t, w.tearDown(w.disk, spec))
	if mounts, err := w.disk.Mounts(); err != nil || len(mounts) > 0 || len(w.left()) > 0 {
		t.Errorf("left: %v, %v, %v", mounts, w.left(), err)
	}
	spec.Volume.EmptyDir.Medium = "HugePages"
	if err := w.setUp(w.disk, spec, plugins.MountOptions{}); err == nil || err.Error() != `unknown storage medium "HugePages"` {
		t.Errorf("huge pages: %v", err)
	}
}

// TestMissingObjects has upstream's errors for a config map, or a key, that does not exist.
func TestMissingObjects(t *testing.T) {
	w := newWorld(t)
	spec := volume()
	wantError(t, w.setUp(w.disk, spec, plugins.MountOptions{}), `configmap "config" not found`)
	spec.Volume.ConfigMap.Optional = ptr.To(true)
	testcheck.NoError(t, w.setUp(w.disk, spec, plugins.MountOptions{}))
	testcheck.NoError(t, w.tearDown(w.disk, spec))
	w.put(map[string]string{"a": "1"})
	spec.Volume.ConfigMap.Items = []corev1.KeyToPath{{Key: "b", Path: "b"}}
	testcheck.NoError(t, w.setUp(w.disk, spec, plugins.MountOptions{}))
	spec.Volume.ConfigMap.Optional = nil
	wantError(t, w.setUp(w.disk, spec, plugins.MountOptions{}), "configmap references non-existent config key: b")
	secret := &plugins.Spec{Volume: &corev1.Volume{Name: "keys", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: "keys", DefaultMode: ptr.To[int32](0o644)},
	}}}
	wantError(t, w.setUp(w.disk, secret, plugins.MountOptions{}), `secret "keys" not found`)
	if got := slices.Sorted(maps.Keys(files(w.disk))); len(got) > 0 {
		t.Errorf("files %v", got)
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
