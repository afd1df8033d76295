package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/sim"
)

// The defaults of Config.
//
// Upstream: kube-scheduler podInitialBackoffSeconds, podMaxBackoffSeconds.
const (
	defaultBackoffMin = time.Second
	defaultBackoffMax = 10 * time.Second
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder

	BackoffMin time.Duration // after a placement that failed; doubles with each. 0: 1 s
	BackoffMax time.Duration // 0: 10 s
}

// Controller is the scheduler. Its state belongs to its process's tasks.
type Controller struct {
	cfg     Config
	pods    corelisters.PodLister
	nodes   corelisters.NodeLister
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister

	csiNodes    storagelisters.CSINodeLister
	byNode      cache.Indexer // of pods
	attachments cache.Indexer // of VolumeAttachments, by node

	queue        *sim.Queue[cache.ObjectName]
	pending      pendingPods
	placed       map[types.UID]*placement      // assumed pods, until the cache shows them on their node
	backingOff   map[types.UID]backoff         // pods whose placement failed
	limitBlocked map[cache.ObjectName]struct{} // pending pods that were rejected by a node's volume limit
	written      map[cache.ObjectName]*corev1.PersistentVolumeClaim
}

// backoff is a pod's back-off after a placement that failed.
type backoff struct {
	failures int
	until    time.Time
}

// New returns the scheduler. It adds a queue with one worker to the process, and registers with the
// informers. It must be called before the host starts.
//
// Upstream: pkg/scheduler New, addAllEventHandlers (v1.36).
func New(cfg Config) *Controller {
	if cfg.BackoffMin == 0 {
		cfg.BackoffMin = defaultBackoffMin
	}
	if cfg.BackoffMax == 0 {
		cfg.BackoffMax = defaultBackoffMax
	}
	core, storage := cfg.Informers.Core().V1(), cfg.Informers.Storage().V1()
	c := &Controller{
		cfg:     cfg,
		pods:    core.Pods().Lister(),
		nodes:   core.Nodes().Lister(),
		claims:  core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(),
		classes: storage.StorageClasses().Lister(),

		csiNodes:    storage.CSINodes().Lister(),
		byNode:      indexed(core.Pods().Informer()),
		attachments: indexed(storage.VolumeAttachments().Informer()),

		queue: sim.NewQueue[cache.ObjectName](cfg.Process,
			sim.QueueConfig{Name: "pods", BackoffMin: cfg.BackoffMin, BackoffMax: cfg.BackoffMax}),
		pending:      newPendingPods(),
		placed:       map[types.UID]*placement{},
		backingOff:   map[types.UID]backoff{},
		limitBlocked: map[cache.ObjectName]struct{}{},
		written:      map[cache.ObjectName]*corev1.PersistentVolumeClaim{},
	}
	c.watch(core.Pods().Informer(), core.Nodes().Informer(), core.PersistentVolumeClaims().Informer(),
		core.PersistentVolumes().Informer(), storage.StorageClasses().Informer())
	c.watchLimits(storage.CSINodes().Informer(), storage.VolumeAttachments().Informer())
	c.queue.Work(c.sync)
	return c
}

// sync chooses a node for a pod, or continues an earlier placement.
//
// Upstream: pkg/scheduler scheduleOnePod, schedulePod (v1.36).
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	pod, err := c.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || !isWaiting(pod) {
		return nil //nolint:nilerr // it is gone
	}
	if p, ok := c.placed[pod.UID]; ok {
		return c.proceed(ctx, p)
	}
	if r, ok := c.backingOff[pod.UID]; ok && c.cfg.Process.Now().Before(r.until) {
		return nil // it is queued for then
	}
	claims, err := claimsOf(pod, c)
	nodes := c.allNodes()
	if err != nil {
		return c.report(ctx, pod, corev1.PodReasonUnschedulable, unschedulableMessage(len(nodes), err.Error()))
	}
	delete(c.limitBlocked, key)
	node, message := choose(nodes, func(node *corev1.Node) []string {
		reasons := unfit(pod, node, claims, c)
		if slices.Contains(reasons, reasonLimit) {
			c.limitBlocked[key] = struct{}{}
		}
		return reasons
	})
	if node == nil {
		return c.report(ctx, pod, corev1.PodReasonUnschedulable, message)
	}
	p := &placement{pod: pod, node: node.Name, awaited: namesOf(claims.delayed)}
	c.placed[pod.UID] = p
	return c.proceed(ctx, p)
}

// isWaiting reports whether this scheduler must choose a node for a pod.
func isWaiting(pod *corev1.Pod) bool {
	name := pod.Spec.SchedulerName
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
		!isOver(pod) && (name == "" || name == corev1.DefaultSchedulerName)
}

// isOver reports whether a pod has completed, so it uses no resources.
func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// allNodes returns the nodes, sorted by name.
func (c *Controller) allNodes() []*corev1.Node {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		panic("scheduler: list nodes: " + err.Error())
	}
	return slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}

var _ state = (*Controller)(nil)

// claim returns a claim as cached, or as this scheduler last wrote it if that version is newer. It
// is nil if the claim does not exist.
func (c *Controller) claim(namespace, name string) *corev1.PersistentVolumeClaim {
	cached, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil
	}
	if written, ok := c.written[cache.NewObjectName(namespace, name)]; ok && isNewer(written, cached) {
		return written
	}
	return cached
}

func (c *Controller) volume(name string) *corev1.PersistentVolume {
	volume, err := c.volumes.Get(name)
	if err != nil {
		return nil
	}
	return volume
}

func (c *Controller) class(name string) *storagev1.StorageClass {
	class, err := c.classes.Get(name)
	if err != nil {
		return nil
	}
	return class
}

// inUse reports whether another pod than except uses the claim and is on a node, or is assumed to
// be.
func (c *Controller) inUse(claim *corev1.PersistentVolumeClaim, except types.UID) bool {
	pods, err := c.pods.Pods(claim.Namespace).List(labels.Everything())
	if err != nil {
		panic("scheduler: list pods: " + err.Error())
	}
	uses := func(pod *corev1.Pod) bool {
		return pod.UID != except && pod.Namespace == claim.Namespace && slices.Contains(claimNames(pod), claim.Name)
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName != "" && !isOver(pod) && uses(pod)
	}) || slices.ContainsFunc(slices.Collect(maps.Values(c.placed)), func(p *placement) bool {
		return uses(p.pod)
	})
}

// indexByNode is the name of the index by node.
const indexByNode = "scheduler-node"

// indexed adds the index by node to a cache.
func indexed(informer cache.SharedIndexInformer) cache.Indexer {
	if informer.GetIndexer().GetIndexers()[indexByNode] != nil {
		return informer.GetIndexer()
	}
	err := informer.AddIndexers(cache.Indexers{indexByNode: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			return []string{pod.Spec.NodeName}, nil
		}
		return []string{obj.(*storagev1.VolumeAttachment).Spec.NodeName}, nil
	}})
	if err != nil {
		panic("scheduler: add index: " + err.Error())
	}
	return informer.GetIndexer()
}

// onNode returns the objects of an index for a node.
func onNode[T any](indexer cache.Indexer, node string) []T {
	objects, err := indexer.ByIndex(indexByNode, node)
	if err != nil {
		panic("scheduler: " + err.Error())
	}
	all := make([]T, len(objects))
	for i, obj := range objects {
		all[i] = obj.(T)
	}
	return all
}

func (c *Controller) csiNode(node string) *storagev1.CSINode {
	object, err := c.csiNodes.Get(node)
	if err != nil {
		return nil
	}
	return object
}

// podsOn returns the pods on a node and those assumed to be. A pod may be listed twice.
func (c *Controller) podsOn(node string, except types.UID) []*corev1.Pod {
	pods := onNode[*corev1.Pod](c.byNode, node)
	for _, p := range c.placed {
		if p.node == node {
			pods = append(pods, p.pod)
		}
	}
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == except || isOver(pod) })
}

func (c *Controller) attachmentsTo(node string) []*storagev1.VolumeAttachment {
	return onNode[*storagev1.VolumeAttachment](c.attachments, node)
}
