package vmdiff

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

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

// spoil makes our kubelet another one. The zero value leaves it as it is.
type spoil struct {
	client      func(kubernetes.Interface) kubernetes.Interface // what stands between it and the server
	plugin      func(*ourPlugin) plugins.Plugin                 // what stands between it and a plugin
	keepsEnded  bool                                            // it keeps the volumes of pods whose containers have ended
	reportsSoon bool                                            // it takes for reported what it is about to report
}

// ours is our volume manager, with as much of a kubelet as it needs, on a stepped host.
type ours struct {
	host      *sim.Stepped
	component *sim.Process
	client    kubernetes.Interface
	node      string
	disk      nodefs.FS
	plugins   []*ourPlugin
	manager   *volumemanager.Manager
	status    *sim.Queue[string]
	spoil     spoil
	alarm     *sim.Timer
	rung      bool
}

const stepsMax = 500_000

// liveOurs has our manager live through a history.
func liveOurs(h history, chooser sim.Chooser, spoil spoil) histories.Execution[*world] {
	o := &ours{host: sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: stepsMax}), spoil: spoil}
	defer o.host.Close()
	server := fake.NewServer(fake.Config{Now: o.host.Now, SkipBootstrap: true})
	w := newWorld(h, server, server.Client(o.host.ExternalCaller()), &histories.Faults{})
	if err := w.furnish(); err != nil {
		panic(err)
	}
	o.alarm = o.host.Process("clock").NewTimer("alarm", func() { o.rung = true })
	w.kubelet, o.disk, o.node = o, newDisk(), w.node
	for _, name := range []string{blockPlugin, localPlugin, sharePlugin} {
		o.plugins = append(o.plugins, &ourPlugin{
			name: name, seen: w.seen, disk: o.disk, mounts: map[string]bool{}, devices: map[string]bool{}, attached: map[string]bool{},
		})
	}
	o.start(server, w)
	w.restart = func() error {
		o.host.Crash(o.component)
		o.start(server, w)
		return nil
	}
	return w.live(h, o.pass, nil)
}

// start starts the kubelet, which is told of the pods that there are.
func (o *ours) start(server *fake.Server, w *world) {
	o.component = o.host.Process("kubelet")
	w.faults.Caller = o.component
	o.client = server.Client(w.faults)
	if o.spoil.client != nil {
		o.client = o.spoil.client(o.client)
	}
	manager := &plugins.Manager{}
	for _, p := range o.plugins {
		p.component = o.component
		if err := manager.Register(o.plugin(p)); err != nil {
			panic(err)
		}
	}
	o.status = sim.NewQueue[string](o.component, sim.QueueConfig{Name: "node status"})
	o.status.Work(o.syncNode)
	o.manager = volumemanager.New(volumemanager.Config{
		Process: o.component, Client: o.client, NodeName: types.NodeName(w.node), Plugins: manager, Recorder: w.seen,
		FS: o.disk, Root: kubeletRoot, SelfAttach: w.itself,
		PodChanged:    func(types.UID) {},
		ReportChanged: func() { o.status.Add(o.node) },
	})
	eventhandler.Add(server.Informers(o.component).Core().V1().Nodes().Informer(),
		func(_, node *corev1.Node) { o.manager.NodeUpdated(node) }, nil)
	o.told("begin", func() {
		for _, p := range w.all {
			if p.here && !p.ended {
				o.manager.AddPod(p.object)
			}
		}
		if err := o.manager.MarkAllPodsAdded(); err != nil {
			panic(err)
		}
	})
}

// newDisk is the node's own, with the device that all volumes are.
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

// plugin is one of ours, or what a mutant has in its place.
func (o *ours) plugin(p *ourPlugin) plugins.Plugin {
	switch {
	case o.spoil.plugin != nil && p.name == blockPlugin:
		return o.spoil.plugin(p)
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
	if o.spoil.reportsSoon {
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

// told tells the manager of something, in its component.
func (o *ours) told(what string, tell func()) {
	o.component.Spawn(what, func(context.Context) { tell() })
}

func (o *ours) runs(p *corev1.Pod) { o.told("pod comes", func() { o.manager.AddPod(p) }) }

func (o *ours) leaves(p *corev1.Pod) {
	if o.spoil.keepsEnded {
		o.told("pod goes", func() { o.manager.RemovePod(p.UID) })
	}
}

func (o *ours) ended(p *corev1.Pod) {
	if !o.spoil.keepsEnded {
		o.told("pod ends", func() { o.manager.RemovePod(p.UID) })
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

func (o *ours) holds(p *corev1.Pod) bool { return o.manager.HasVolumes(p.UID) }

func (*ours) report() error { return nil } // it is done when there is something to report

// pass lets time pass.
func (o *ours) pass(d time.Duration) error {
	if o.rung = d == 0; !o.rung {
		o.alarm.Reset(d)
	}
	for !o.rung || o.host.Busy() {
		if !o.host.Step() {
			return fmt.Errorf("nothing is left to happen, not even the alarm")
		}
		if o.host.Steps() >= stepsMax {
			return sim.ErrSteps
		}
	}
	return nil
}
