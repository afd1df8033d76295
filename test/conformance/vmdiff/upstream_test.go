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

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/upstreamvm"
)

// devicePath is the device of each volume according to upstream's fake plugin.
const devicePath = "/dev/sdb"

// upstream is upstream's volume manager with the parts of a kubelet that it uses.
type upstream struct {
	manager *upstreamvm.Manager
	client  kubernetes.Interface
	node    string
	root    string
	plugins []volume.VolumePlugin
	stop    func()
}

// runUpstream executes a history with upstream's manager, in a bubble.
func runUpstream(t *testing.T, h history, want []histories.State) (execution histories.Execution[*world]) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		faults := &histories.Faults{Caller: sim.DirectCaller()}
		server := fake.NewServer(fake.Config{Now: time.Now, SkipBootstrap: true})
		w := newWorld(h, server, server.Client(sim.DirectCaller()), faults)
		if err := w.createObjects(); err != nil {
			t.Fatal(err)
		}
		u := &upstream{client: server.Client(faults), node: w.node, root: root, plugins: fakePlugins(w.observer)}
		w.kubelet = u
		if err := u.start(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		w.restart = func() error {
			u.stop()
			synctest.Wait()
			return u.start(t.Context(), w)
		}
		server.OnCommit(func(c fake.Commit) {
			if c.Resource == "nodes" {
				u.manager.SetNode(c.After.(*corev1.Node))
			}
		})
		execution = w.execute(h, histories.PassInBubble, want)
		u.stop()
	})
	return execution
}

// start starts the kubelet and adds the existing pods.
func (u *upstream) start(ctx context.Context, w *world) error {
	ctx, cancel := context.WithCancel(ctx)
	m, wait, err := upstreamvm.Start(ctx, upstreamvm.Config{
		Client: u.client, Node: types.NodeName(u.node), Root: u.root, Recorder: w.observer, Plugins: u.plugins, SelfAttach: w.selfAttach,
	})
	if err != nil {
		cancel()
		return err
	}
	u.manager = m
	u.stop = func() {
		cancel()
		wait()
	}
	m.SetNode(w.nodeObject())
	for _, p := range w.all {
		if p.exists {
			m.AddPod(p.object)
		}
		if p.terminated {
			m.FinishPod(p.object.UID)
		}
	}
	return nil
}

func (u *upstream) podCreated(p *corev1.Pod)    { u.manager.AddPod(p) }
func (u *upstream) podRemoved(p *corev1.Pod)    { u.manager.RemovePod(p) }
func (u *upstream) podTerminated(p *corev1.Pod) { u.manager.FinishPod(p.UID) }

func (u *upstream) mounted(p *corev1.Pod) []string {
	names := []string{}
	for name := range u.manager.GetMountedVolumesForPod(volumetypes.UniquePodName(p.UID)) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (u *upstream) hasVolumes(p *corev1.Pod) bool {
	return u.manager.HasPossiblyMountedVolumesForPod(volumetypes.UniquePodName(p.UID))
}

// report reports the volumes in use in the node's status, as a kubelet does.
//
// Upstream: pkg/kubelet updateNodeStatus, setNodeVolumesInUseStatus (v1.36).
func (u *upstream) report() error {
	names := u.manager.GetVolumesInUse()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": names}})
	if err != nil {
		return err
	}
	node, err := u.client.CoreV1().Nodes().Get(ctx, u.node, metav1.GetOptions{})
	if err != nil {
		return nil // retried with the next report
	}
	if !slices.Equal(node.Status.VolumesInUse, names) {
		if _, err := u.client.CoreV1().Nodes().
			Patch(ctx, u.node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return nil
		}
	}
	u.manager.MarkVolumesAsReportedInUse(names)
	return nil
}

// fakePlugins returns upstream's fake plugins, which report their calls to the observer.
func fakePlugins(o *observer) []volume.VolumePlugin {
	make := func(name string) *fakePlugin {
		p := &fakePlugin{
			FakeVolumePlugin: &volumetesting.FakeVolumePlugin{PluginName: name, DisableNodeExpansion: true}, observer: o,
			mounts: map[string]string{}, devices: map[string]string{},
		}
		p.CanSupportFn = func(spec *volume.Spec) bool { return pluginOf(spec.Name()) == name }
		return p
	}
	local := make(localPlugin)
	local.NonAttachable = true
	return []volume.VolumePlugin{make(blockPlugin), local, &basicPlugin{make(sharePlugin)}}
}

// A fakePlugin is upstream's fake plugin with a FakeVolume for each volume of a pod, because
// operations on volumes run concurrently. FakeVolume implements the behaviour that names of volumes
// determine.
type fakePlugin struct {
	*volumetesting.FakeVolumePlugin
	observer *observer

	mu      sync.Mutex        // held while a FakeVolume is called
	mounts  map[string]string // guarded by mu: the VolumeMountState of all of them
	devices map[string]string // guarded by mu: the DeviceMountState of all that are mapped
}

func (p *fakePlugin) volume(name string, pod types.UID) *volumetesting.FakeVolume {
	return &volumetesting.FakeVolume{PodUID: pod, VolName: name, Plugin: p.FakeVolumePlugin, VolumeMountState: p.mounts, DeviceMountState: p.devices}
}

// NewMounter returns a mounter for one volume of a pod.
func (p *fakePlugin) NewMounter(spec *volume.Spec, pod *corev1.Pod) (volume.Mounter, error) {
	return &fakeMounter{p.volume(spec.Name(), pod.UID), p}, nil
}

// NewUnmounter returns an unmounter for one volume of a pod.
func (p *fakePlugin) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	return &fakeMounter{p.volume(name, pod), p}, nil
}

// do makes and records a call, unless a fault is injected.
func (p *fakePlugin) do(verb, disk string, pod types.UID, effect func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if fails, uncertain := p.observer.fails(verb); !fails {
		err = effect()
	} else if err = errInjected; uncertain {
		err = volumetypes.NewUncertainProgressError(errInjected.Error())
	}
	p.observer.record(verb, disk, pod, err)
	return err
}

type fakeMounter struct {
	*volumetesting.FakeVolume
	plugin *fakePlugin
}

// SetUp makes and records the call.
func (m *fakeMounter) SetUp(args volume.MounterArgs) error {
	return m.plugin.do("SetUp", m.VolName, m.PodUID, func() error { return m.FakeVolume.SetUp(args) })
}

// TearDown makes and records the call.
func (m *fakeMounter) TearDown() error {
	return m.plugin.do("TearDown", m.VolName, m.PodUID, m.FakeVolume.TearDown)
}

// NewBlockVolumeMapper returns a mapper for one volume, of a pod or of none.
func (p *fakePlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *corev1.Pod) (volume.BlockVolumeMapper, error) {
	m := &fakeMapper{FakeVolume: p.volume(spec.Name(), ""), plugin: p}
	if pod != nil {
		m.PodUID = pod.UID
	}
	return m, nil
}

// NewBlockVolumeUnmapper returns an unmapper for one volume of a pod.
func (p *fakePlugin) NewBlockVolumeUnmapper(name string, pod types.UID) (volume.BlockVolumeUnmapper, error) {
	return &fakeMapper{FakeVolume: p.volume(name, pod), plugin: p}, nil
}

type fakeMapper struct {
	*volumetesting.FakeVolume
	plugin *fakePlugin
}

// GetGlobalMapPath returns a different path for each volume.
func (m *fakeMapper) GetGlobalMapPath(spec *volume.Spec) (string, error) {
	return globalOf(spec.Name()), nil
}

// GetPodDeviceMapPath returns a different path for each volume of a pod.
func (m *fakeMapper) GetPodDeviceMapPath() (dir, link string) { return linksOf(m.PodUID), m.VolName }

// SetUpDevice makes and records the call.
func (m *fakeMapper) SetUpDevice() (string, error) {
	return "", m.plugin.do("SetUpDevice", m.VolName, "", func() error {
		_, err := m.FakeVolume.SetUpDevice()
		return err
	})
}

// MapPodDevice makes and records the call.
func (m *fakeMapper) MapPodDevice() (string, error) {
	return "", m.plugin.do("MapPodDevice", m.VolName, m.PodUID, func() error {
		_, err := m.FakeVolume.MapPodDevice()
		return err
	})
}

// UnmapPodDevice makes and records the call.
func (m *fakeMapper) UnmapPodDevice() error {
	return m.plugin.do("UnmapPodDevice", m.VolName, m.PodUID, m.FakeVolume.UnmapPodDevice)
}

// TearDownDevice makes and records the call.
func (m *fakeMapper) TearDownDevice(path, device string) error {
	return m.plugin.do("TearDownDevice", m.VolName, "", func() error { return m.FakeVolume.TearDownDevice(path, device) })
}

// NewAttacher returns an attacher that also mounts for the node.
func (p *fakePlugin) NewAttacher() (volume.Attacher, error) {
	a, err := p.FakeVolumePlugin.NewAttacher()
	return &fakeAttacher{Attacher: a, plugin: p}, err
}

// NewDeviceMounter returns a mounter for the node.
func (p *fakePlugin) NewDeviceMounter() (volume.DeviceMounter, error) { return p.NewAttacher() }

// NewDetacher returns a detacher that also unmounts from the node.
func (p *fakePlugin) NewDetacher() (volume.Detacher, error) {
	d, err := p.FakeVolumePlugin.NewDetacher()
	return &fakeDetacher{d, p}, err
}

// NewDeviceUnmounter returns an unmounter for the node.
func (p *fakePlugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) { return p.NewDetacher() }

type fakeAttacher struct {
	volume.Attacher
	plugin *fakePlugin
}

const deviceRoot = "/devices"

func globalOf(disk string) string { return "/global/" + disk }

func linksOf(pod types.UID) string { return "/links/" + string(pod) }

// GetDeviceMountPath returns a different path for each volume.
func (*fakeAttacher) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	return filepath.Join(deviceRoot, spec.Name()), nil
}

// Attach makes and records the call.
func (a *fakeAttacher) Attach(spec *volume.Spec, node types.NodeName) (path string, err error) {
	err = a.plugin.do("Attach", spec.Name(), "", func() error {
		path, err = a.Attacher.Attach(spec, node)
		return err
	})
	return path, err
}

// MountDevice makes and records the call.
func (a *fakeAttacher) MountDevice(spec *volume.Spec, device, path string, args volume.DeviceMounterArgs) error {
	return a.plugin.do("MountDevice", spec.Name(), "", func() error { return a.Attacher.MountDevice(spec, device, path, args) })
}

type fakeDetacher struct {
	volume.Detacher
	plugin *fakePlugin
}

// Detach makes and records the call.
func (d *fakeDetacher) Detach(disk string, node types.NodeName) error {
	return d.plugin.do("Detach", disk, "", func() error { return d.Detacher.Detach(disk, node) })
}

// UnmountDevice makes and records the call.
func (d *fakeDetacher) UnmountDevice(path string) error {
	disk, ok := strings.CutPrefix(path, deviceRoot+"/")
	if !ok {
		return errors.New("no device is mounted at " + path)
	}
	return d.plugin.do("UnmountDevice", disk, "", func() error { return d.Detacher.UnmountDevice(path) })
}

// A basicPlugin mounts for pods only.
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
