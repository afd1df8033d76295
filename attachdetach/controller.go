package attachdetach

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// ManagedAnnotation marks the nodes to which this controller attaches volumes; its value is
// ignored. Kubelets set it.
//
// Upstream: pkg/volume/util ControllerManagedAttachAnnotation (v1.36).
const ManagedAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

// EventSource is the component name in this controller's events.
const EventSource = "attachdetach-controller"

// Config configures a Controller.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface            // its calls suspend tasks of Process
	Informers informers.SharedInformerFactory // its handlers run in Process
	Recorder  record.EventRecorder
	Plugins   *plugins.Manager

	DisableForceDetach bool          // force a detach only on the out-of-service taint, never after a timeout
	MaxWaitForUnmount  time.Duration // unmount timeout on a node that is not ready; 0: 6 min
	VerifyPeriod       time.Duration // how often plugins are asked for attachments; 0: 1 min; negative: never
}

// A Controller is the AttachDetach controller. Only tasks of its process may call its methods.
// While the world is at rest, String may also be called from outside.
//
// Differs: upstream also re-examines every pod each minute and again each three minutes, for
// changes that its handlers miss: claims and volumes that reach the caches late, nodes that become
// managed, drivers that change. Here the handlers miss none of these.
//
// Upstream: pkg/controller/volume/attachdetach attachDetachController (v1.36).
type Controller struct {
	cfg Config

	pods        corelisters.PodLister
	nodes       corelisters.NodeLister
	claims      corelisters.PersistentVolumeClaimLister
	persistent  corelisters.PersistentVolumeLister
	attachments storagelisters.VolumeAttachmentLister
	synced      []cache.InformerSynced

	podIndexer, attachmentIndexer cache.Indexer

	desired  *desiredStateOfWorld
	actual   *actualStateOfWorld
	executor *executor.Executor
	status   *nodeStatus
	verify   *sim.Timer
	volumes  *sim.Queue[corev1.UniqueVolumeName]
	requeues map[corev1.UniqueVolumeName]time.Time // latest time of the next sync

	verifying bool // the verify timer is set

	recovered  bool                          // the two models exist; cache events are ignored before
	unresolved []*storagev1.VolumeAttachment // existed at the start, without PersistentVolume in the cache
}

// New registers the controller's handlers and tasks. They start to work once the caches have
// synced.
//
// Upstream: pkg/controller/volume/attachdetach NewAttachDetachController (v1.36).
func New(cfg Config) *Controller {
	c := &Controller{
		cfg:      cfg,
		desired:  newDesired(),
		actual:   newActual(),
		volumes:  sim.NewQueue[corev1.UniqueVolumeName](cfg.Process, sim.QueueConfig{Name: "volumes"}),
		requeues: map[corev1.UniqueVolumeName]time.Time{},
	}
	c.executor = executor.New(executor.Config{Process: cfg.Process, OnDone: c.operationDone})
	c.status = newNodeStatus(cfg, c.actual)
	c.verify = cfg.Process.NewBackgroundTimer("verify", c.verifyAll)
	c.watch()
	cfg.Process.Worker("recover", func() bool { return !c.recovered && c.cachesSynced() }, c.recoverState)
	c.volumes.Work(c.syncVolume)
	return c
}

// watch registers informers, indexes and handlers.
func (c *Controller) watch() {
	core, storage := c.cfg.Informers.Core().V1(), c.cfg.Informers.Storage().V1()
	pods, nodes := core.Pods().Informer(), core.Nodes().Informer()
	claims, persistent := core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer()
	drivers, attachments := storage.CSIDrivers().Informer(), storage.VolumeAttachments().Informer()

	c.pods, c.nodes = core.Pods().Lister(), core.Nodes().Lister()
	c.claims, c.persistent = core.PersistentVolumeClaims().Lister(), core.PersistentVolumes().Lister()
	c.attachments = storage.VolumeAttachments().Lister()
	c.podIndexer = pods.GetIndexer()
	c.attachmentIndexer = attachments.GetIndexer()
	addIndexers(pods, podIndexers)
	addIndexers(attachments, attachmentIndexers)
	podclaims.AddIndex(pods.GetIndexer())
	for _, informer := range []cache.SharedIndexInformer{pods, nodes, claims, persistent, drivers, attachments} {
		c.synced = append(c.synced, informer.HasSynced)
	}
	handle(c, pods, func(_, pod *corev1.Pod) { c.podChanged(pod) }, c.podDeleted)
	handle(c, nodes, c.nodeChanged, c.nodeDeleted)
	handle(c, claims, func(_, claim *corev1.PersistentVolumeClaim) { c.claimChanged(claim.Namespace, claim.Name) }, nil)
	handle(c, persistent, c.persistentVolumeChanged, nil)
	handle(c, attachments, func(_, attachment *storagev1.VolumeAttachment) { c.attachmentChanged(attachment) },
		c.attachmentDeleted)
	handle(c, drivers, func(_, _ metav1.Object) { c.driversChanged() }, func(metav1.Object) { c.driversChanged() })
	c.cfg.Plugins.OnChange(c.pluginsChanged)
}

// addIndexers adds the indexes that another controller of the process has not added yet.
func addIndexers(informer cache.SharedIndexInformer, indexers cache.Indexers) {
	present := informer.GetIndexer().GetIndexers()
	missing := maps.Clone(indexers)
	maps.DeleteFunc(missing, func(name string, _ cache.IndexFunc) bool { return present[name] != nil })
	if err := informer.AddIndexers(missing); err != nil {
		panic("attachdetach: indexes: " + err.Error())
	}
}

// handle registers handlers with one informer. They are not called before the controller has
// recovered, since recovery reads the whole cache. old is nil for a new object. A deletion passes
// the last known state; deleted may be nil.
func handle[T any](c *Controller, informer cache.SharedIndexInformer, changed func(old, object T), deleted func(T)) {
	if _, err := informer.AddEventHandler(&handler[T]{c, changed, deleted}); err != nil {
		panic("attachdetach: event handler: " + err.Error())
	}
}

// A handler is what handle registers.
type handler[T any] struct {
	c       *Controller
	changed func(old, object T)
	deleted func(T)
}

func (h *handler[T]) OnAdd(object any, _ bool) {
	if h.c.recovered {
		var none T
		h.changed(none, object.(T))
	}
}

func (h *handler[T]) OnUpdate(old, object any) {
	if h.c.recovered {
		h.changed(old.(T), object.(T))
	}
}

func (h *handler[T]) OnDelete(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if h.c.recovered && h.deleted != nil {
		h.deleted(object.(T))
	}
}

func (c *Controller) cachesSynced() bool {
	return !slices.ContainsFunc(c.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// operationDone queues the volume of an operation that has ended.
func (c *Controller) operationDone(op executor.Operation, _ executor.Outcome, _ error) {
	c.volumes.Add(op.Key.Volume)
}

func (c *Controller) enqueue(volumes []corev1.UniqueVolumeName) {
	for _, volume := range volumes {
		c.volumes.Add(volume)
	}
}

func (c *Controller) enqueueAttachments(attachments []*attachedVolume) {
	for _, a := range attachments {
		c.volumes.Add(a.Volume)
	}
}

// nodeChanged processes a node: its annotation, volumes in use, reported volumes and readiness. old
// is nil for a new node.
//
// Upstream: pkg/controller/volume/attachdetach nodeAdd, nodeUpdate (v1.36).
func (c *Controller) nodeChanged(old, node *corev1.Node) {
	name := types.NodeName(node.Name)
	if _, ok := node.Annotations[ManagedAnnotation]; ok && c.desired.addNode(name) {
		c.populateNode(name)
	}
	c.setInUse(node)
	c.status.nodeChanged(old, node)
	if old == nil || isReady(old) != isReady(node) || isOutOfService(old) != isOutOfService(node) {
		c.enqueueAttachments(c.actual.OnNode(name))
	}
}

// nodeDeleted processes the deletion of a node. The volumes that it used last stay in use.
//
// Differs: upstream does not look into tombstones.
//
// Upstream: pkg/controller/volume/attachdetach nodeDelete (v1.36).
func (c *Controller) nodeDeleted(node *corev1.Node) {
	name := types.NodeName(node.Name)
	c.desired.deleteNode(name)
	c.setInUse(node)
	c.actual.forgetNode(name)
	c.status.nodeDeleted(name)
	c.enqueueAttachments(c.actual.OnNode(name))
}

// setInUse stores which volumes a node uses, and queues those whose use changed.
//
// Upstream: pkg/controller/volume/attachdetach processVolumesInUse (v1.36).
func (c *Controller) setInUse(node *corev1.Node) {
	c.enqueueAttachments(c.actual.setInUse(types.NodeName(node.Name), node.ResourceVersion, node.Status.VolumesInUse))
}

// sorted sorts objects by namespace and name. Caches return them in random order.
func sorted[T metav1.Object](objects []T) []T {
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects
}

// String returns both models and the operations, one entry a line.
func (c *Controller) String() string {
	var b strings.Builder
	for _, d := range c.desired.All() {
		fmt.Fprintf(&b, "desired %s on %s by", d.Volume, d.Node)
		for _, pod := range d.Pods() {
			fmt.Fprintf(&b, " %s/%s", pod.Namespace, pod.Name)
		}
		b.WriteByte('\n')
	}
	for _, a := range c.actual.All() {
		fmt.Fprintf(&b, "actual %s\n", a)
	}
	b.WriteString(c.executor.String())
	return b.String()
}
