package volumebinding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// A miniature is a scheduler with this plugin only. It does not assign pods: they are done when their
// claims are bound. Its workers have several pods in flight.
type miniature[H sim.Host] struct {
	*testworld.On[H]
	plugin  *Plugin
	inform  func(pod cache.ObjectName) *corev1.Pod
	nodes   func() []*corev1.Node
	cycles  map[cache.ObjectName]*flight
	done    map[string]string // node by pod
	errs    []string
	binding bool // the PersistentVolume controller and the provisioner act
}

type flight struct {
	cycle *framework.Cycle
	node  string
}

func newMiniature[H sim.Host](t *testing.T, host H, args Args) *miniature[H] {
	t.Helper()
	m := &miniature[H]{
		On: testworld.NewOn(t, host, fake.Config{Namespaces: []string{"ns"}}), cycles: map[cache.ObjectName]*flight{}, done: map[string]string{},
	}
	process := host.Process("scheduler")
	caches := m.Server.Informers(process)
	core := caches.Core().V1()
	m.plugin = New(framework.Handle{Process: process, Client: m.Server.Client(process), Informers: caches}, args)
	m.inform = func(key cache.ObjectName) *corev1.Pod {
		pod, _ := core.Pods().Lister().Pods(key.Namespace).Get(key.Name)
		return pod
	}
	m.nodes = func() []*corev1.Node {
		nodes, err := core.Nodes().Lister().List(labels.Everything())
		m.NoError(err)
		return nodes
	}
	queue := sim.NewQueue[cache.ObjectName](process, sim.QueueConfig{Name: "pods", BackoffMin: time.Second, BackoffMax: 10 * time.Second})
	m.plugin.OnWake(func(pod *corev1.Pod) { queue.Add(cache.MetaObjectToName(pod)) })
	eventhandler.Add(core.Pods().Informer(), func(old, pod *corev1.Pod) { queue.Add(cache.MetaObjectToName(pod)) }, nil)
	for range 3 {
		queue.Work(m.sync)
	}
	m.startBinder(host)
	for _, class := range classes() {
		create(m.rig(), class.(*storagev1.StorageClass))
	}
	return m
}

// rig returns the world for functions that create objects in it.
func (m *miniature[H]) rig() *rig {
	return &rig{World: m.Hostless()}
}

func (m *miniature[H]) sync(ctx context.Context, key cache.ObjectName) error {
	pod := m.inform(key)
	if _, done := m.done[key.Name]; pod == nil || done {
		return nil
	}
	f := m.cycles[key]
	if f == nil {
		var err error
		if f, err = m.schedule(pod); err != nil {
			return m.failed(key, err.Error())
		}
		m.cycles[key] = f
	}
	done, status := m.plugin.PreBind(ctx, f.cycle, f.node)
	if status != nil {
		m.plugin.Unreserve(f.cycle, f.node)
		delete(m.cycles, key)
		return m.failed(key, status.Message())
	}
	if done {
		m.done[key.Name] = f.node
	}
	return nil
}

func (m *miniature[H]) failed(key cache.ObjectName, why string) error {
	m.errs = append(m.errs, key.Name+": "+why)
	return errors.New(why)
}

func (m *miniature[H]) schedule(pod *corev1.Pod) (*flight, error) {
	info, err := framework.NewPodInfo(pod)
	m.NoError(err)
	cycle := framework.NewCycle(info, framework.NewSnapshot(m.nodes(), nil))
	if _, status := m.plugin.PreFilter(cycle); status.IsRejected() {
		return nil, errors.New(status.Message())
	}
	for _, node := range cycle.Snapshot.Nodes() {
		if m.plugin.Filter(cycle, node) != nil {
			continue
		}
		if status := m.plugin.Reserve(cycle, node.Node.Name); status != nil {
			return nil, errors.New(status.Message())
		}
		return &flight{cycle, node.Node.Name}, nil
	}
	return nil, errors.New("no node")
}

// startBinder starts a stand-in of the PersistentVolume controller and of the provisioner.
func (m *miniature[H]) startBinder(host H) {
	process := host.Process("binder")
	client := m.Server.Client(process)
	core := m.Server.Informers(process).Core().V1()
	queue := sim.NewQueue[cache.ObjectName](process, sim.QueueConfig{Name: "claims"})
	eventhandler.Add(core.PersistentVolumeClaims().Informer(), func(_, claim *corev1.PersistentVolumeClaim) {
		queue.Add(cache.MetaObjectToName(claim))
	}, nil)
	eventhandler.Add(core.PersistentVolumes().Informer(), func(_, volume *corev1.PersistentVolume) {
		if ref := volume.Spec.ClaimRef; ref != nil {
			queue.Add(cache.NewObjectName(ref.Namespace, ref.Name))
		}
	}, nil)
	queue.Work(func(ctx context.Context, key cache.ObjectName) error {
		claim, err := core.PersistentVolumeClaims().Lister().PersistentVolumeClaims(key.Namespace).Get(key.Name)
		if err != nil || isBound(claim) || !m.binding {
			return nil //nolint:nilerr // it is gone
		}
		volumes, err := core.PersistentVolumes().Lister().List(labels.Everything())
		m.NoError(err)
		i := slices.IndexFunc(volumes, func(v *corev1.PersistentVolume) bool { return storagehelpers.IsVolumeBoundToClaim(v, claim) })
		if i >= 0 {
			return bindClaim(ctx, client, claim, volumes[i].Name)
		}
		if node := claim.Annotations[storagehelpers.AnnSelectedNode]; node != "" {
			made := volume("pvc-"+claim.Name, node, "5G", *claim.Spec.StorageClassName, of(claim))
			made.UID, made.ResourceVersion = "", ""
			_, err = client.CoreV1().PersistentVolumes().Create(ctx, made, createOptions)
			return err
		}
		return nil
	})
}

func bindClaim(ctx context.Context, client kubernetes.Interface, claim *corev1.PersistentVolumeClaim, volume string) error {
	claim = claim.DeepCopy()
	boundTo(volume)(claim)
	_, err := client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, updateOptions)
	return err
}

// available creates a volume that can be bound.
func (m *miniature[H]) available(v *corev1.PersistentVolume) {
	m.Helper()
	stored := create(m.rig(), v)
	stored.Status.Phase = corev1.VolumeAvailable
	_, err := m.User.CoreV1().PersistentVolumes().UpdateStatus(ctx, stored, updateOptions)
	m.NoError(err)
}

// fill creates three nodes with two volumes each, and pods that need all volumes, and others that need new
// ones. Two pods share a claim.
func (m *miniature[H]) fill() {
	m.Helper()
	for i := range 3 {
		name := fmt.Sprintf("n%d", i+1)
		create(m.rig(), node(name))
		m.available(volume("a-"+name, name, "2G", waits))
		m.available(volume("b-"+name, name, "3G", waits))
	}
	for i := range 6 {
		name := fmt.Sprintf("static-%d", i)
		create(m.rig(), claim(name, fmt.Sprintf("%dG", 1+i%3), waits))
		create(m.rig(), pod(name, name))
	}
	for i := range 3 {
		name := fmt.Sprintf("dynamic-%d", i)
		create(m.rig(), claim(name, "1G", provided))
		create(m.rig(), pod(name, name))
	}
	create(m.rig(), pod("sharer", "dynamic-0"))
}

// check fails unless the pods are on nodes that can use their volumes, and each volume has one claim.
func (m *miniature[H]) check(pods int) {
	m.Helper()
	if len(m.done) != pods {
		m.Errorf("%d of %d pods: %v\n%v", len(m.done), pods, m.done, m.errs)
	}
	users := map[string]string{}
	for name, on := range m.done {
		if name == "sharer" {
			name = "dynamic-0"
		}
		obj, _ := m.Server.Get("persistentvolumeclaims", "ns", name)
		bound := obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName
		if other, ok := users[bound]; ok && other != name {
			m.Errorf("claims %s and %s have volume %s", other, name, bound)
		}
		users[bound] = name
		obj, _ = m.Server.Get("persistentvolumes", "", bound)
		if err := storagehelpers.CheckNodeAffinity(obj.(*corev1.PersistentVolume), node(on).Labels); err != nil {
			m.Errorf("pod %s is on node %s: volume %s: %v", name, on, bound, err)
		}
	}
	p := m.plugin
	if len(p.volumes.assumed)+len(p.volumes.written)+len(p.claims.assumed)+len(p.claims.written)+len(p.waiters) != 0 {
		m.Errorf("left: %+v, %+v, %v", p.volumes, p.claims, p.waiters)
	}
}

func TestPodsInFlight(t *testing.T) {
	for seed := range uint64(60) {
		m := newMiniature(t, sim.NewStepped(sim.SteppedConfig{Chooser: sim.NewSeeded(seed), StepsMax: 20_000}), Args{})
		m.binding = true
		m.fill()
		m.NoError(m.Host.Run())
		m.check(10)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
