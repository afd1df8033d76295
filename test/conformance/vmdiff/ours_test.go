package vmdiff

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/volumemanager"
)

// A mutation changes our kubelet. The zero value changes nothing.
type mutation struct {
	client          func(kubernetes.Interface) kubernetes.Interface // wraps its client
	plugin          func(*ourPlugin) plugins.Plugin                 // wraps its plugin of attachable volumes
	keepsTerminated bool                                            // it keeps the volumes of terminated pods
	reportsEarly    bool                                            // it treats volumes as reported before the report
}

// ours is our volume manager with the parts of a kubelet that it uses, on a stepped host.
type ours struct {
	host     *sim.Stepped
	process  *sim.Process
	client   kubernetes.Interface
	node     string
	disk     nodefs.FS
	plugins  []*ourPlugin
	manager  *volumemanager.Manager
	status   *sim.Queue[string]
	mutation mutation
}

// runOurs executes a history with our manager.
func runOurs(h history, chooser sim.Chooser, mutation mutation) histories.Execution[*world] {
	o := &ours{host: sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: histories.StepsMax}), mutation: mutation}
	defer o.host.Close()
	server := fake.NewServer(fake.Config{Now: o.host.Now, SkipBootstrap: true})
	w := newWorld(h, server, server.Client(o.host.ExternalCaller()), &histories.Faults{})
	if err := w.createObjects(); err != nil {
		panic(err)
	}
	clock := histories.NewClock(o.host)
	w.kubelet, o.disk, o.node = o, newDisk(), w.node
	for _, name := range []string{blockPlugin, localPlugin, sharePlugin} {
		o.plugins = append(o.plugins, &ourPlugin{
			name: name, observer: w.observer, disk: o.disk, mounts: map[string]bool{}, devices: map[string]bool{}, attached: map[string]bool{},
		})
	}
	o.start(server, w)
	w.restart = func() error {
		o.host.Crash(o.process)
		o.start(server, w)
		return nil
	}
	return w.execute(h, clock.Pass, nil)
}

// start starts the kubelet and adds the existing pods.
func (o *ours) start(server *fake.Server, w *world) {
	o.process = o.host.Process("kubelet")
	w.faults.Caller = o.process
	o.client = server.Client(w.faults)
	if o.mutation.client != nil {
		o.client = o.mutation.client(o.client)
	}
	manager := &plugins.Manager{}
	for _, p := range o.plugins {
		p.process = o.process
		if err := manager.Register(o.plugin(p)); err != nil {
			panic(err)
		}
	}
	o.status = sim.NewQueue[string](o.process, sim.QueueConfig{Name: "node status"})
	o.status.Work(o.syncNode)
	o.manager = volumemanager.New(volumemanager.Config{
		Process: o.process, Client: o.client, NodeName: types.NodeName(w.node), Plugins: manager, Recorder: w.observer,
		FS: o.disk, Root: kubeletRoot, SelfAttach: w.selfAttach,
		PodChanged:    func(types.UID) {},
		ReportChanged: func() { o.status.Add(o.node) },
	})
	eventhandler.Add(server.Informers(o.process).Core().V1().Nodes().Informer(),
		func(_, node *corev1.Node) { o.manager.NodeUpdated(node) }, nil)
	o.spawn("start", func() {
		for _, p := range w.all {
			if p.exists && !p.terminated {
				o.manager.AddPod(p.object)
			}
		}
		if err := o.manager.MarkAllPodsAdded(); err != nil {
			panic(err)
		}
	})
}

// newDisk returns the node's disk, with the device of all volumes.
func newDisk() nodefs.FS {
	disk := nodefs.NewMemory("/")
	for _, err := range []error{
		disk.MkdirAll(filepath.Dir(devicePath)), disk.WriteFile(devicePath, nil), disk.MountDevice("sdb", devicePath, false),
	} {
		if err != nil {
			panic(err)
		}
	}
	return disk
}

// plugin returns a plugin with the capabilities of its volumes, or that of a mutant.
func (o *ours) plugin(p *ourPlugin) plugins.Plugin {
	switch {
	case o.mutation.plugin != nil && p.name == blockPlugin:
		return o.mutation.plugin(p)
	case p.name == blockPlugin:
		return attaching{p}
	case p.name == localPlugin:
		return p
	default:
		return onlyMounting{p, p, p}
	}
}

// syncNode reports the volumes in use, as package kubelet does.
func (o *ours) syncNode(ctx context.Context, name string) error {
	if !o.manager.NeedsReport() {
		return nil
	}
	volumes := o.manager.VolumesInUse()
	if o.mutation.reportsEarly {
		node, err := o.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o.manager.MarkReportedInUse(volumes, node)
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": volumes}})
	if err != nil {
		return err
	}
	node, err := o.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	o.manager.MarkReportedInUse(volumes, node)
	if o.manager.NeedsReport() {
		o.status.Add(name)
	}
	return nil
}

// spawn runs f in a task of the kubelet.
func (o *ours) spawn(name string, f func()) {
	o.process.Spawn(name, func(context.Context) { f() })
}

func (o *ours) podCreated(p *corev1.Pod) {
	o.spawn("pod created", func() { o.manager.AddPod(p) })
}

func (o *ours) podRemoved(p *corev1.Pod) {
	if o.mutation.keepsTerminated {
		o.spawn("pod removed", func() { o.manager.RemovePod(p.UID) })
	}
}

func (o *ours) podTerminated(p *corev1.Pod) {
	if !o.mutation.keepsTerminated {
		o.spawn("pod terminated", func() { o.manager.RemovePod(p.UID) })
	}
}

func (o *ours) mounted(p *corev1.Pod) []string {
	names := []string{}
	for _, v := range p.Spec.Volumes {
		if _, is := o.manager.Path(p.UID, v.Name); is {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (o *ours) hasVolumes(p *corev1.Pod) bool { return o.manager.HasVolumes(p.UID) }

func (*ours) report() error { return nil } // the task "node status" reports
