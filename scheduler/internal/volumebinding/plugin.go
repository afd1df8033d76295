package volumebinding

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// Name is the name of the plugin.
const Name = "VolumeBinding"

// DefaultBindTimeout limits how long PreBind waits for a pod's claims to be bound.
//
// Upstream: SetDefaults_VolumeBindingArgs (v1.36).
const DefaultBindTimeout = 600 * time.Second

// Args are the arguments of the plugin.
//
// Upstream: k8s.io/kube-scheduler/config VolumeBindingArgs, feature gate StorageCapacityScoring (v1.36).
type Args struct {
	BindTimeout time.Duration // 0: DefaultBindTimeout
	// StorageCapacityScoring ranks nodes by how much of the storage a pod would use. Upstream: alpha.
	StorageCapacityScoring bool
	Shape                  []configv1.UtilizationShapePoint // the score by utilization; nil: DefaultShape
}

// Plugin is the plugin. Its state belongs to the tasks of its process.
//
// Upstream: VolumeBinding, volumeBinder (v1.36).
type Plugin struct {
	args    Args
	shape   framework.Shape // of args
	process *sim.Process
	client  kubernetes.Interface

	pods     corelisters.PodLister
	nodes    corelisters.NodeLister
	csiNodes storagelisters.CSINodeLister
	classes  storagelisters.StorageClassLister
	drivers  storagelisters.CSIDriverLister

	claims       *assumeCache[*corev1.PersistentVolumeClaim]
	volumes      *assumeCache[*corev1.PersistentVolume]
	volumesBy    cache.Indexer // see indexByClaim
	capacitiesBy cache.Indexer // see indexByTopology

	rejections [reasonMax]*framework.Status // by reasons; nil: not yet needed
	waiters    waiters
	timeouts   *sim.Queue[cache.ObjectName] // of pods
	wake       func(pod *corev1.Pod)
}

var (
	_ framework.PreFilterer = (*Plugin)(nil)
	_ framework.Filterer    = (*Plugin)(nil)
	_ framework.Scorer      = (*Plugin)(nil)
	_ framework.Reserver    = (*Plugin)(nil)
	_ framework.PreBinder   = (*Plugin)(nil)
	_ framework.Waker       = (*Plugin)(nil)
)

// New returns the plugin. It adds a queue to the process, and informers of CSIDrivers and
// CSIStorageCapacities. In a stepped world these cost no steps if their filters pass only drivers that publish
// capacities, and the capacities of such drivers.
//
// Upstream: New, NewVolumeBinder (v1.36).
func New(h framework.Handle, args Args) *Plugin {
	if args.BindTimeout == 0 {
		args.BindTimeout = DefaultBindTimeout
	}
	if args.Shape == nil {
		args.Shape = DefaultShape
	}
	core, storage := h.Informers.Core().V1(), h.Informers.Storage().V1()
	claims, volumes := core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer()
	p := &Plugin{
		args: args, shape: framework.NewShape(args.Shape), process: h.Process, client: h.Client,
		pods:     core.Pods().Lister(),
		nodes:    core.Nodes().Lister(),
		csiNodes: storage.CSINodes().Lister(),
		classes:  storage.StorageClasses().Lister(),
		drivers:  storage.CSIDrivers().Lister(),

		claims:       newAssumeCache[*corev1.PersistentVolumeClaim](claims.GetIndexer(), "persistentvolumeclaims"),
		volumes:      newAssumeCache[*corev1.PersistentVolume](volumes.GetIndexer(), "persistentvolumes"),
		volumesBy:    indexed(volumes, indexByClaim, claimOfVolume),
		capacitiesBy: indexed(storage.CSIStorageCapacities().Informer(), indexByTopology, topologyOfCapacity),

		waiters:  waiters{},
		timeouts: sim.NewQueue[cache.ObjectName](h.Process, sim.QueueConfig{Name: "bind timeouts", Heartbeat: true}),
		wake:     func(*corev1.Pod) {},
	}
	p.timeouts.Work(p.timedOut)
	eventhandler.Add(claims, func(_, claim *corev1.PersistentVolumeClaim) { p.claimChanged(claim) }, p.claimChanged)
	eventhandler.Add(volumes, func(_, volume *corev1.PersistentVolume) { p.volumeChanged(volume) }, p.volumeChanged)
	eventhandler.Add(core.Nodes().Informer(), func(old, node *corev1.Node) {
		if old != nil && !maps.Equal(old.Labels, node.Labels) {
			p.nodeChanged(node)
		}
	}, p.nodeChanged)
	return p
}

// Name implements framework.Plugin.
func (p *Plugin) Name() string { return Name }

// OnWake implements framework.Waker.
func (p *Plugin) OnWake(wake func(pod *corev1.Pod)) { p.wake = wake }

func (p *Plugin) claimChanged(claim *corev1.PersistentVolumeClaim) {
	key := keyOf(claim)
	p.claims.expire(key)
	p.wakeFor(object{ofClaim, key})
}

func (p *Plugin) volumeChanged(volume *corev1.PersistentVolume) {
	p.volumes.expire(volume.Name)
	p.wakeFor(object{ofVolume, volume.Name})
	if ref := volume.Spec.ClaimRef; ref != nil && len(p.waiters) > 0 {
		p.wakeFor(object{ofClaim, ref.Namespace + "/" + ref.Name})
	}
}

func (p *Plugin) nodeChanged(node *corev1.Node) { p.wakeFor(object{ofNode, node.Name}) }

// indexByClaim is the name of the index of volumes by the claim in the claimRef, as NAMESPACE/NAME, or,
// without one, by class.
const indexByClaim = "volumebinding-claim"

func claimOfVolume(obj any) ([]string, error) {
	volume := obj.(*corev1.PersistentVolume)
	if ref := volume.Spec.ClaimRef; ref != nil {
		return []string{ref.Namespace + "/" + ref.Name}, nil
	}
	return []string{storagehelpers.GetPersistentVolumeClass(volume)}, nil
}

// volumesFor returns the volumes of a claim's class that have no claim, by name, and those that have this one.
//
// Differs: upstream lists all volumes of the class, and skips those that have another claim.
//
// Upstream: PVAssumeCache.ListPVs (v1.36).
func (p *Plugin) volumesFor(claim *corev1.PersistentVolumeClaim) []*corev1.PersistentVolume {
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	return append(p.volumesIn(class, class), p.volumesIn(keyOf(claim), class)...)
}

func (p *Plugin) volumesIn(value, class string) []*corev1.PersistentVolume {
	cached := byIndex(p.volumesBy, indexByClaim, value)
	if len(cached) == 0 {
		return nil
	}
	volumes := make([]*corev1.PersistentVolume, 0, len(cached)+1)
	for _, obj := range cached {
		volume, err := p.volumes.get(obj.(*corev1.PersistentVolume).Name)
		if err == nil && storagehelpers.GetPersistentVolumeClass(volume) == class {
			volumes = append(volumes, volume)
		}
	}
	return volumes
}

// indexed adds an index to a cache.
func indexed(informer cache.SharedIndexInformer, name string, of cache.IndexFunc) cache.Indexer {
	if informer.GetIndexer().GetIndexers()[name] == nil {
		if err := informer.AddIndexers(cache.Indexers{name: of}); err != nil {
			panic("volumebinding: add index: " + err.Error())
		}
	}
	return informer.GetIndexer()
}

func byIndex(of cache.Indexer, name, value string) []any {
	objects, err := of.ByIndex(name, value)
	if err != nil {
		panic("volumebinding: " + err.Error())
	}
	return objects
}

// class returns a class; nil if it does not exist.
func (p *Plugin) class(name string) *storagev1.StorageClass {
	class, err := p.classes.Get(name)
	if err != nil {
		return nil
	}
	return class
}
