package volumemanager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// realMapper is a plugin with a loop device of this machine as its only volume. It publishes the
// device's node in a directory.
type realMapper struct {
	scripted
	real *nodefs.Real
	root string
	loop string // the device
}

var (
	_ plugins.BlockMapper         = (*realMapper)(nil)
	_ plugins.BlockPaths          = (*realMapper)(nil)
	_ plugins.DeviceReconstructor = (*realMapper)(nil)
)

func (p *realMapper) call(verb string, effect func() error) error {
	return p.c.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: "v"},
		func() trace.Outcome { return trace.Outcome{Err: effect()} }).Err
}

func (p *realMapper) GlobalMapPath(*plugins.Spec) (string, error) { return p.root + "/global", nil }
func (p *realMapper) published(pod types.UID) string              { return p.root + "/published/" + string(pod) }

func (p *realMapper) PodDeviceMapPath(volume string, pod types.UID) (dir, link string) {
	return filepath.Join(p.root, "pods", string(pod), "volumeDevices", "example.com~shelf"), volume
}

func (p *realMapper) SetUpDevice(context.Context, *plugins.Spec, *corev1.Pod, plugins.MountOptions) (string, error) {
	return "", p.call("SetUpDevice", func() error { return p.real.MkdirAll(p.root + "/published") })
}

func (p *realMapper) MapPodDevice(_ context.Context, _ *plugins.Spec, pod *corev1.Pod,
	_ plugins.MountOptions,
) (string, error) {
	path := p.published(pod.UID)
	return path, p.call("MapPodDevice", func() error {
		info, err := p.real.Stat(path)
		if err == nil && info.Device != "" {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = p.real.WriteFile(path, nil)
		}
		return errors.Join(err, p.real.BindDevice(p.loop, path, false))
	})
}

func (p *realMapper) UnmapPodDevice(_ context.Context, _ string, pod types.UID) error {
	path := p.published(pod)
	return p.call("UnmapPodDevice", func() error {
		if err := p.real.Unmount(path); err != nil && !errors.Is(err, nodefs.ErrNotMounted) &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return p.real.RemoveAll(path)
	})
}

func (p *realMapper) TearDownDevice(context.Context, *plugins.Spec) error {
	return p.call("TearDownDevice", func() error { return p.real.RemoveAll(p.root + "/published") })
}

func (p *realMapper) ReconstructBlock(string, types.UID) (plugins.Reconstructed, error) {
	mode := corev1.PersistentVolumeBlock
	return plugins.Reconstructed{Spec: &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{VolumeMode: &mode},
	}}}, nil
}

func (p *realMapper) ReconstructDevices() ([]plugins.ReconstructedDevice, error) {
	if there, err := p.real.Exists(p.root + "/published"); err != nil || !there {
		return nil, err
	}
	made, err := p.ReconstructBlock("v", "")
	device := plugins.ReconstructedDevice{Path: p.root + "/global", Spec: made.Spec, Block: true}
	names, _ := p.real.ReadDir(p.root + "/global")
	for _, name := range names {
		device.Pods = append(device.Pods, types.UID(name))
	}
	return []plugins.ReconstructedDevice{device}, err
}

// realWorld is a world with a volume on a loop device, and a pod that uses it.
type realWorld struct {
	*world
	disk  *nodefs.Real
	root  string
	loop  string
	calls []string // calls of the plugin, and operations of the volume manager on the disk
}

func newRealWorld(t *testing.T) *realWorld {
	t.Helper()
	w := &realWorld{
		world: &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 3000})},
		root:  filepath.Join(t.TempDir(), "node"),
	}
	var err error
	w.disk, err = nodefs.NewReal(w.root)
	w.NoError(err)
	image := filepath.Join(t.TempDir(), "image")
	w.NoError(os.WriteFile(image, make([]byte, 1<<20), 0o600))
	w.loop, err = loopdev.Bind(t.Context(), image, "volsim:test", false)
	w.NoError(err)
	t.Cleanup(func() {
		bound, err := loopdev.List(func(backing string) bool { return backing == image })
		err = errors.Join(err, w.disk.UnmountAll())
		for _, each := range bound {
			err = errors.Join(err, loopdev.Unbind(context.Background(), each))
		}
		if err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	w.createNode()
	w.claim("v")
	mode := block
	w.volume("v", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &mode })
	w.bindAt("v", "1Gi")
	w.list("v")
	w.Host.Log().Watch(func(r trace.Record) {
		if r.Kind == trace.KindDriver {
			w.calls = append(w.calls, r.Verb)
		}
	})
	w.boot(devicePod("a"))
	return w
}

// boot starts the kubelet.
func (w *realWorld) boot(pods ...*corev1.Pod) {
	w.Helper()
	c := w.Host.Process("kubelet")
	p := &realMapper{scripted: scripted{c: c, calls: map[string]int{}}, real: w.disk, root: w.root, loop: w.loop}
	w.launch(c, p, w.disk, w.root, pods...)
}

// kill crashes the kubelet and restarts it.
func (w *realWorld) kill(pods ...*corev1.Pod) {
	w.Helper()
	w.Host.Crash(w.kubelet)
	w.Server.RemoveComponent(w.kubelet)
	w.boot(pods...)
}

// link returns the path of the pod's device.
func (w *realWorld) link() string {
	return w.root + "/pods/a/volumeDevices/example.com~shelf/v"
}

// wantMapped checks that the device is mapped for the pod, once, and locked. It writes to it, or
// reads the data back.
func (w *realWorld) wantMapped(write bool) {
	w.Helper()
	w.pod("a", true, true)
	mounts, err := w.disk.Mounts()
	w.NoError(err)
	var at []string
	for _, m := range mounts {
		at = append(at, strings.TrimPrefix(m.Path, w.root))
	}
	testcheck.Equal(w, "mounts", []string{"/global/a", "/published/a"}, at)
	locks, err := loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, w.root+"/") })
	w.NoError(err)
	if len(locks) != 1 || locks[0].BackingFile != w.root+"/global/a" {
		w.Errorf("locks: %+v", locks)
	}
	device, err := os.OpenFile(w.link(), os.O_RDWR|os.O_SYNC, 0)
	w.NoError(err)
	defer device.Close()
	content, found := bytes.Repeat([]byte("kept"), 1024), make([]byte, 4096)
	if write {
		_, err = device.WriteAt(content, 4096)
		w.NoError(err)
	}
	_, err = device.ReadAt(found, 4096)
	w.NoError(err)
	if !bytes.Equal(found, content) {
		w.Error("the device does not contain the written data")
	}
}

// wantNothing checks that nothing of the volume remains on the node.
func (w *realWorld) wantNothing() {
	w.Helper()
	w.pod("a", false, false)
	mounts, err := w.disk.Mounts()
	locks, lockErr := loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, w.root+"/") })
	if len(mounts)+len(locks) > 0 || err != nil || lockErr != nil {
		w.Errorf("remaining: mounts %v, locks %v, %v, %v", mounts, locks, err, lockErr)
	}
	for _, path := range []string{"/global", "/published"} {
		if there, err := w.disk.Exists(w.root + path); there || err != nil {
			w.Errorf("%s exists, %v", path, err)
		}
	}
	if _, err := w.disk.Stat(w.link()); !errors.Is(err, fs.ErrNotExist) {
		w.Errorf("the pod's link exists, %v", err)
	}
}

// TestRealDeviceOutlivesKubelets crashes a kubelet after each of its calls to the plugin and each
// operation on the disk, on real devices, binds and links. Once the next kubelet is at rest the
// device is mapped once, with the pod's data. Nothing remains after the pod is removed, even
// without a running kubelet.
func TestRealDeviceOutlivesKubelets(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	mapping := []string{"SetUpDevice", "MapPodDevice", "BindDevice", "LinkDevice", "LockDevice"}
	unmapping := []string{"UnlockDevice", "UnlinkDevice", "UnbindDevice", "UnmapPodDevice", "TearDownDevice"}
	for _, received := range []bool{false, true} {
		for _, at := range mapping {
			t.Run(fmt.Sprintf("%s received=%v", at, received), func(t *testing.T) {
				w := newRealWorld(t)
				w.killAt(at, received, devicePod("a"))
				w.wantMapped(true)
				w.kill(devicePod("a"))
				w.pass(long)
				w.wantMapped(false)
				w.removePod("a")
				w.wantNothing()
			})
			t.Run(fmt.Sprintf("%s received=%v, the pod is removed", at, received), func(t *testing.T) {
				w := newRealWorld(t)
				w.killAt(at, received)
				w.wantNothing()
			})
		}
		for _, at := range unmapping {
			t.Run(fmt.Sprintf("%s received=%v", at, received), func(t *testing.T) {
				w := newRealWorld(t)
				w.pass(long)
				w.wantMapped(true)
				w.remove("a")
				w.killAt(at, received)
				w.wantNothing()
			})
		}
	}
}

const long = 10 * time.Second

// killAt crashes the kubelet after the effect of a call, before or after the kubelet receives the
// result.
func (w *realWorld) killAt(call string, received bool, pods ...*corev1.Pod) {
	w.Helper()
	w.Until(call, func() bool { return slices.Contains(w.calls, call) })
	if received {
		w.Host.Step()
	}
	w.kill(pods...)
	w.pass(long)
}
