package volumemanager_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

const block = corev1.PersistentVolumeBlock

// devicePod returns a pod that uses the volume as a device.
func devicePod(uid types.UID) *corev1.Pod {
	p := scriptedPod(block)
	p.UID, p.Name = uid, "pod-"+string(uid)
	return p
}

// addDevicePod adds a pod and runs the world for some time.
func (w *world) addDevicePod(uid types.UID) {
	w.Helper()
	w.manager.AddPod(devicePod(uid))
	w.kubelet.Wake()
	w.pass(10 * time.Second)
}

func (w *world) removePod(uid types.UID) {
	w.Helper()
	w.remove(uid)
	w.pass(10 * time.Second)
}

// driven returns the calls of the plugin, and the volume manager's operations on the disk.
func (w *world) driven() []string {
	var verbs []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindDriver {
			verbs = append(verbs, r.Verb)
		}
	}
	return verbs
}

// wantNode checks the device of the node at a path; "" for none.
func wantNode(t *testing.T, disk nodefs.FS, path, want string) {
	t.Helper()
	info, err := disk.Stat(path)
	if want == "" && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil || info.Device != want {
		t.Errorf("%s is %+v (%v), want the device %q", path, info, err, want)
	}
}

func TestLifecycleOfADevice(t *testing.T) {
	t.Parallel()
	w, p := newScriptedWorld(t, script{}, block)
	w.addDevicePod("a")
	w.pod("a", true, true)
	path, ok := w.manager.Path("a", "v")
	if !ok || path != "/links/a/v" {
		t.Errorf("path of the pod's device: %q, %v", path, ok)
	}
	link, err := p.disk.Readlink(path)
	w.NoError(err)
	testcheck.Equal(w, "the pod's link", "/dev/v", link)
	wantNode(t, p.disk, "/global/a", "v")
	if _, err := p.disk.DeviceLock("/global/a"); err != nil {
		t.Errorf("the device is not locked: %v", err)
	}
	w.removePod("a")
	w.pod("a", false, false)
	testcheck.Equal(w, "done", []string{
		"SetUpDevice", "MapPodDevice", "BindDevice", "LinkDevice", "LockDevice",
		"UnlockDevice", "UnlinkDevice", "UnbindDevice", "UnmapPodDevice", "TearDownDevice",
	}, w.driven())
	testcheck.Equal(w, "events", []string{
		`x1 Normal SuccessfulMountVolume pod-a: MapVolume.MapPodDevice succeeded for volume "v" globalMapPath "/global"`,
		`x1 Normal SuccessfulMountVolume pod-a: MapVolume.MapPodDevice succeeded for volume "v" volumeMapPath "/links/a"`,
	}, w.events())
	for _, left := range []string{"/global", "/links/a/v"} {
		if there, err := p.disk.Exists(left); there || err != nil {
			t.Errorf("%s is left, %v", left, err)
		}
	}
}

// TestTwoPodsShareADevice maps the device for the second pod without setting it up again, and
// unmaps it for the first pod without tearing it down.
func TestTwoPodsShareADevice(t *testing.T) {
	t.Parallel()
	w, p := newScriptedWorld(t, script{}, block)
	w.addDevicePod("a")
	w.addDevicePod("b")
	wantNode(t, p.disk, "/global/a", "v")
	wantNode(t, p.disk, "/global/b", "v")
	w.removePod("a")
	wantNode(t, p.disk, "/global/a", "")
	wantNode(t, p.disk, "/global/b", "v")
	w.pod("b", true, true)
	w.removePod("b")
	testcheck.Equal(w, "for the node", []int{1, 1}, []int{p.calls["SetUpDevice"], p.calls["TearDownDevice"]})
	testcheck.Equal(w, "for pods", []int{2, 2}, []int{p.calls["MapPodDevice"], p.calls["UnmapPodDevice"]})
}

// TestDeviceThatCannotBeMapped checks that a failure after the plugin's setup leaves the device
// uncertain, and that it is torn down with the pod.
func TestDeviceThatCannotBeMapped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		script  script
		prepare func(w *world, p *scripted)
		held    bool
		want    string // the pod's event
	}{
		{
			"not for the node",
			script{device: []error{errFinal}},
			nil, false,
			`MapVolume.SetUpDevice failed for volume "v" : broken`,
		},
		{
			"not for the pod",
			script{pod: []error{errTransient}},
			nil, false,
			`MapVolume.MapPodDevice failed for volume "v" : not yet`,
		},
		{
			"the device path is unknown",
			script{},
			func(w *world, _ *scripted) { w.unnamed("v") }, true,
			`MapVolume failed for volume "v" : device path of the volume is empty`,
		},
		{
			"the device path does not exist",
			script{path: "/dev/w"},
			nil, true,
			`MapVolume.EvalHostSymlinks failed for volume "v" : stat /dev/w: file does not exist`,
		},
		{
			"a cycle of links",
			script{path: "/dev/round"},
			func(w *world, p *scripted) { w.NoError(p.disk.Symlink("round", "/dev/round")) }, true,
			`MapVolume.EvalHostSymlinks failed for volume "v" : path "/dev/round" has more than 40 symbolic links`,
		},
		{
			"the path is not a device",
			script{path: "/dev/file"},
			func(w *world, p *scripted) {
				w.NoError(p.disk.MkdirAll("/dev/file"))
			}, true,
			`MapVolume.MapBlockVolume failed for volume "v" : blkUtil.MapDevice failed. devicePath: /dev/file, globalMapPath:/global, ` +
				`podUID: a, bindMount: true: mount /global/a: not a directory`,
		},
		{
			"another one is mapped for the pod",
			script{},
			func(w *world, p *scripted) {
				w.NoError(p.disk.MkdirAll("/global"))
				w.NoError(p.disk.WriteFile("/global/a", nil))
				w.NoError(p.disk.MountDevice("other", "/global/a", false))
			}, true,
			`MapVolume.MapBlockVolume failed for volume "v" : blkUtil.MapDevice failed. devicePath: /dev/v, globalMapPath:/global, ` +
				`podUID: a, bindMount: true: /global/a is the device other, not v`,
		},
		{
			"a file in place of the link",
			script{},
			func(w *world, p *scripted) {
				w.NoError(p.disk.MkdirAll("/links/a/v/in-the-way"))
			}, true,
			`MapVolume.MapBlockVolume failed for volume "v" : blkUtil.MapDevice failed. devicePath: /dev/v, podVolumeMapPath:/links/a, ` +
				`volumeMapName: v, bindMount: false: remove /links/a/v: directory is not empty`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, p := newScriptedWorld(t, tt.script, block)
			if tt.prepare != nil {
				tt.prepare(w, p)
			}
			w.addDevicePod("a")
			w.pod("a", false, tt.held)
			got := w.events()
			if len(got) != 1 || !strings.Contains(got[0], " Warning FailedMapVolume pod-a: ") {
				t.Fatalf("events %q, want one with the failure", got)
			}
			_, text, _ := strings.Cut(got[0], "pod-a: ")
			if diff := cmp.Diff(tt.want, text); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			w.removePod("a")
			w.pod("a", false, false)
			testcheck.Equal(w, "in use", 0, len(w.manager.VolumesInUse()))
			wantNode(t, p.disk, "/global/a", "")
			if tt.held != (p.calls["UnmapPodDevice"] > 0) {
				t.Errorf("unmapped from the pod %d times", p.calls["UnmapPodDevice"])
			}
		})
	}
}

// unnamed lists a volume as attached in the Node, without a device path.
func (w *world) unnamed(volume string) {
	w.Helper()
	node := w.node().DeepCopy()
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: unique(volume)}}
	_, err := w.User.CoreV1().Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{})
	w.NoError(err)
}

// TestLinksToADeviceAreFollowed checks that the pod's link points to the device itself, however the
// plugin names it.
func TestLinksToADeviceAreFollowed(t *testing.T) {
	t.Parallel()
	w, p := newScriptedWorld(t, script{path: "/dev/by-id/first"}, block)
	w.NoError(p.disk.MkdirAll("/dev/by-id"))
	w.NoError(p.disk.Symlink("../second", "/dev/by-id/first"))
	w.NoError(p.disk.Symlink("/dev/v", "/dev/second"))
	w.addDevicePod("a")
	w.pod("a", true, true)
	link, err := p.disk.Readlink("/links/a/v")
	w.NoError(err)
	testcheck.Equal(w, "the pod's link", "/dev/v", link)
}

// TestStaleLinkIsReplaced checks that a link from before a reboot, which may point to another
// device, is replaced.
func TestStaleLinkIsReplaced(t *testing.T) {
	t.Parallel()
	w, p := newScriptedWorld(t, script{}, block)
	w.NoError(p.disk.MkdirAll("/links/a"))
	w.NoError(p.disk.Symlink("/dev/elsewhere", "/links/a/v"))
	w.addDevicePod("a")
	link, err := p.disk.Readlink("/links/a/v")
	w.NoError(err)
	testcheck.Equal(w, "the pod's link", "/dev/v", link)
}

// TestOtherFilesStay checks that only a link is removed from the pod's directory.
func TestOtherFilesStay(t *testing.T) {
	t.Parallel()
	w, p := newScriptedWorld(t, script{}, block)
	w.addDevicePod("a")
	w.NoError(p.disk.WriteFile("/links/a/v", []byte("another's")))
	w.removePod("a")
	w.pod("a", false, false)
	content, err := p.disk.ReadFile("/links/a/v")
	w.NoError(err)
	testcheck.Equal(w, "the file", "another's", string(content))
}

// TestDeviceOfAnotherPodIsNotTornDown checks that an unknown device node in its directory is kept:
// it may belong to a pod.
func TestDeviceOfAnotherPodIsNotTornDown(t *testing.T) {
	t.Parallel()
	w, p := newScriptedWorld(t, script{}, block)
	w.addDevicePod("a")
	w.NoError(p.disk.WriteFile("/global/unknown", nil))
	w.NoError(p.disk.MountDevice("v", "/global/unknown", false))
	w.removePod("a")
	testcheck.Equal(w, "torn down", 0, p.calls["TearDownDevice"])
	if !slices.Equal(w.manager.VolumesInUse(), []corev1.UniqueVolumeName{unique("v")}) {
		t.Errorf("in use: %v", w.manager.VolumesInUse())
	}
	w.NoError(p.disk.Unmount("/global/unknown"))
	w.pass(3 * time.Minute)
	testcheck.Equal(w, "torn down", 1, p.calls["TearDownDevice"])
}

// TestUnmappingIsRetried binds the device twice, so that the file cannot be removed at first.
func TestUnmappingIsRetried(t *testing.T) {
	t.Parallel()
	w, p := newScriptedWorld(t, script{}, block)
	w.addDevicePod("a")
	w.NoError(p.disk.MountDevice("v", "/global/a", false))
	w.remove("a")
	w.Until("the first try", func() bool { return p.calls["UnmapPodDevice"] == 1 })
	w.pod("a", false, true)
	w.pass(10 * time.Second)
	w.pod("a", false, false)
	testcheck.Equal(w, "taken away", []int{2, 1}, []int{p.calls["UnmapPodDevice"], p.calls["TearDownDevice"]})
}

// TestPodIsRemovedDuringMapping maps the device and unmaps it again.
func TestPodIsRemovedDuringMapping(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"SetUpDevice", "MapPodDevice", "BindDevice", "LinkDevice", "LockDevice"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w, p := newScriptedWorld(t, script{}, block)
			w.manager.AddPod(devicePod("a"))
			w.kubelet.Wake()
			w.Until(at, func() bool { return slices.Contains(w.driven(), at) })
			w.removePod("a")
			w.pod("a", false, false)
			wantNode(t, p.disk, "/global/a", "")
			if there, err := p.disk.Exists("/links/a/v"); there || err != nil {
				t.Errorf("the link exists, %v", err)
			}
			testcheck.Equal(w, "torn down", 1, p.calls["TearDownDevice"])
		})
	}
}

// TestPluginThatMapsNoDevices is not called.
func TestPluginThatMapsNoDevices(t *testing.T) {
	t.Parallel()
	if c := (plugins.Capabilities{Plugin: shelf{}}); c.BlockMapper != nil {
		t.Fatal("the shelf plugin maps devices")
	}
	w := newWorld(t, nil)
	mode := block
	w.claim("v")
	w.volume("v", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &mode })
	w.bind("v")
	w.attach("v")
	w.manager.AddPod(devicePod("a"))
	w.kubelet.Wake()
	w.pass(10 * time.Second)
	w.pod("a", false, false)
	w.calls()
}
