package vmdiff

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/volume"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"

	"github.com/volsim/volsim/conformance/histories"
	"github.com/volsim/volsim/conformance/upstreamvm"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// devicePath is where upstream's fake plugin says that each volume is.
const devicePath = "/dev/sdb"

// upstream is upstream's volume manager, with as much of a kubelet as it needs.
type upstream struct {
	manager  *upstreamvm.Manager
	client   kubernetes.Interface
	reported []corev1.UniqueVolumeName
}

// liveUpstream has upstream's manager live through a history, in a bubble.
func liveUpstream(t *testing.T, h history, want []histories.State) (l histories.Life[*world]) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		faults := &histories.Faults{Caller: sim.Direct()}
		server := fake.NewServer(fake.Config{Now: time.Now, Empty: true})
		w := newWorld(server, server.Client(sim.Direct()), faults)
		if err := w.furnish(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		u := &upstream{client: server.Client(faults)}
		m, wait, err := upstreamvm.Start(ctx, upstreamvm.Config{
			Client: u.client, Node: nodeName, Root: root, Recorder: w.seen, Plugins: fakePlugins(w.seen),
		})
		if err != nil {
			t.Fatal(err)
		}
		u.manager, w.kubelet = m, u
		m.NodeSeen(w.node())
		server.OnCommit(func(c fake.Commit) {
			if c.Resource == "nodes" {
				m.NodeSeen(c.After.(*corev1.Node))
			}
		})
		l = w.live(h, pass, want)
		cancel()
		wait()
	})
	return l
}

// pass lets time pass.
func pass(d time.Duration) error {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
	return nil
}

func (u *upstream) runs(p *corev1.Pod)   { u.manager.AddPod(p) }
func (u *upstream) leaves(p *corev1.Pod) { u.manager.RemovePod(p) }
func (u *upstream) ended(p *corev1.Pod)  { u.manager.FinishPod(p.UID) }

func (u *upstream) mounted(p *corev1.Pod) []string {
	names := []string{}
	for name := range u.manager.GetMountedVolumesForPod(volumetypes.UniquePodName(p.UID)) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (u *upstream) holds(p *corev1.Pod) bool {
	return u.manager.HasPossiblyMountedVolumesForPod(volumetypes.UniquePodName(p.UID))
}

// report says which volumes are in use, as a kubelet does in its node's status.
//
// Upstream: pkg/kubelet updateNodeStatus, setNodeVolumesInUseStatus (v1.36).
func (u *upstream) report() error {
	names := u.manager.GetVolumesInUse()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": names}})
	if err != nil {
		return err
	}
	node, err := u.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return nil // it is tried again
	}
	if !slices.Equal(node.Status.VolumesInUse, names) {
		if _, err := u.client.CoreV1().Nodes().
			Patch(ctx, nodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return nil
		}
	}
	u.manager.MarkVolumesAsReportedInUse(names)
	return nil
}

// fakePlugins are upstream's fake plugins, which tell what they are called for.
func fakePlugins(seen *observer) []volume.VolumePlugin {
	make := func(name string) *fakePlugin {
		p := &fakePlugin{
			FakeVolumePlugin: &volumetesting.FakeVolumePlugin{PluginName: name, DisableNodeExpansion: true}, seen: seen,
			mounts: map[string]string{},
		}
		p.CanSupportFn = func(spec *volume.Spec) bool { return pluginOf(spec.PersistentVolume) == name }
		return p
	}
	local := make(localPlugin)
	local.NonAttachable = true
	return []volume.VolumePlugin{make(blockPlugin), local, &basicPlugin{make(sharePlugin)}}
}

// fakePlugin is upstream's fake plugin with a FakeVolume for each volume of a pod, and not one for all: operations on volumes run
// beside each other. What the names of volumes do, FakeVolume does.
type fakePlugin struct {
	*volumetesting.FakeVolumePlugin
	seen *observer

	mu     sync.Mutex        // held while a FakeVolume is called
	mounts map[string]string // guarded by mu: the VolumeMountState of all of them
}

func (p *fakePlugin) volume(name string, pod types.UID) *volumetesting.FakeVolume {
	return &volumetesting.FakeVolume{PodUID: pod, VolName: name, Plugin: p.FakeVolumePlugin, VolumeMountState: p.mounts}
}

// NewMounter is for one volume of a pod.
func (p *fakePlugin) NewMounter(spec *volume.Spec, pod *corev1.Pod) (volume.Mounter, error) {
	return &fakeMounter{p.volume(spec.Name(), pod.UID), p}, nil
}

// NewUnmounter is for one volume of a pod.
func (p *fakePlugin) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	return &fakeMounter{p.volume(name, pod), p}, nil
}

// do makes a call, unless it is broken, and notes it.
func (p *fakePlugin) do(verb, disk string, pod types.UID, effect func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if broken, uncertain := p.seen.broken(verb); !broken {
		err = effect()
	} else if err = errBroken; uncertain {
		err = volumetypes.NewUncertainProgressError(errBroken.Error())
	}
	p.seen.called(verb, disk, pod, err)
	return err
}

type fakeMounter struct {
	*volumetesting.FakeVolume
	plugin *fakePlugin
}

// SetUp is noted.
func (m *fakeMounter) SetUp(args volume.MounterArgs) error {
	return m.plugin.do("SetUp", m.VolName, m.PodUID, func() error { return m.FakeVolume.SetUp(args) })
}

// TearDown is noted.
func (m *fakeMounter) TearDown() error {
	return m.plugin.do("TearDown", m.VolName, m.PodUID, m.FakeVolume.TearDown)
}

// NewAttacher mounts for the node.
func (p *fakePlugin) NewAttacher() (volume.Attacher, error) {
	a, err := p.FakeVolumePlugin.NewAttacher()
	return &fakeAttacher{Attacher: a, plugin: p}, err
}

// NewDeviceMounter mounts for the node.
func (p *fakePlugin) NewDeviceMounter() (volume.DeviceMounter, error) { return p.NewAttacher() }

// NewDetacher unmounts from the node.
func (p *fakePlugin) NewDetacher() (volume.Detacher, error) {
	d, err := p.FakeVolumePlugin.NewDetacher()
	return &fakeDetacher{d, p}, err
}

// NewDeviceUnmounter unmounts from the node.
func (p *fakePlugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) { return p.NewDetacher() }

type fakeAttacher struct {
	volume.Attacher
	plugin *fakePlugin
}

const deviceRoot = "/devices"

// GetDeviceMountPath is another one for each volume.
func (*fakeAttacher) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	return filepath.Join(deviceRoot, spec.Name()), nil
}

// MountDevice is noted.
func (a *fakeAttacher) MountDevice(spec *volume.Spec, device, path string, args volume.DeviceMounterArgs) error {
	return a.plugin.do("MountDevice", spec.Name(), "", func() error { return a.Attacher.MountDevice(spec, device, path, args) })
}

type fakeDetacher struct {
	volume.Detacher
	plugin *fakePlugin
}

// UnmountDevice is noted.
func (d *fakeDetacher) UnmountDevice(path string) error {
	disk, ok := strings.CutPrefix(path, deviceRoot+"/")
	if !ok {
		return errors.New("no device is mounted at " + path)
	}
	return d.plugin.do("UnmountDevice", disk, "", func() error { return d.Detacher.UnmountDevice(path) })
}

// basicPlugin offers no more than mounting for pods.
type basicPlugin struct{ plugin *fakePlugin }

func (b *basicPlugin) Init(host volume.VolumeHost) error { return b.plugin.Init(host) }
func (b *basicPlugin) GetPluginName() string             { return b.plugin.GetPluginName() }
func (b *basicPlugin) GetVolumeName(spec *volume.Spec) (string, error) {
	return b.plugin.GetVolumeName(spec)
}
func (b *basicPlugin) CanSupport(spec *volume.Spec) bool { return b.plugin.CanSupport(spec) }
func (b *basicPlugin) RequiresRemount(*volume.Spec) bool { return false }
func (b *basicPlugin) NewMounter(spec *volume.Spec, pod *corev1.Pod) (volume.Mounter, error) {
	return b.plugin.NewMounter(spec, pod)
}

func (b *basicPlugin) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	return b.plugin.NewUnmounter(name, pod)
}

func (b *basicPlugin) ConstructVolumeSpec(name, path string) (volume.ReconstructedVolume, error) {
	return b.plugin.ConstructVolumeSpec(name, path)
}
func (b *basicPlugin) SupportsMountOption() bool { return true }
func (b *basicPlugin) SupportsSELinuxContextMount(*volume.Spec) (bool, error) {
	return false, nil
}
