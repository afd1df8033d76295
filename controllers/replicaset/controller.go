package replicaset

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/sim"
)

// The components that report the controllers' events.
const (
	EventSource            = "replicaset-controller"
	ReplicationEventSource = "replication-controller" // of ReplicationControllers
)

// The caches that must have the controller's own writes.
const (
	wrotePod = iota
	wroteSet
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // as EventSource or ReplicationEventSource
	// ReplicationControllers makes it the controller of ReplicationControllers instead of ReplicaSets.
	ReplicationControllers bool
	// ActOnStaleCaches syncs a set also while a cache lacks writes that the controller made for it. It
	// creates and deletes no pod while the cache of pods lacks a creation or a deletion, in any case.
	//
	// Upstream: the feature gate StaleControllerConsistencyReplicaSet, which is on since 1.36.
	//
	// Differs: upstream's controller of ReplicationControllers always does so.
	ActOnStaleCaches bool
}

// controller is the ReplicaSet controller, or that of ReplicationControllers.
//
// Upstream: pkg/controller/replicaset ReplicaSetController, pkg/controller/replication
// ReplicationManager (v1.36).
type controller struct {
	cfg      Config
	client   kubernetes.Interface
	kind     schema.GroupVersionKind // of the sets
	sets     store
	pods     corelisters.PodLister
	podIndex cache.Indexer
	setIndex cache.Indexer // nil: sets have no related ones
	written  *workload.Written
	control  *workload.PodControl
	queue    *sim.Queue[types.NamespacedName] // of sets
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker to the process. It must be called before the host starts.
//
// Differs: upstream has five workers.
func New(cfg Config) {
	pods := cfg.Informers.Core().V1().Pods()
	podCache := workload.Cache{Resource: "pods", Versions: pods.Informer()}
	c := &controller{cfg: cfg, client: cfg.Client, pods: pods.Lister(), podIndex: pods.Informer().GetIndexer()}
	queue := "replicaset"
	if cfg.ReplicationControllers {
		c.kind, c.sets, queue = replicationKind, replicationControllers(cfg), "replicationmanager"
	} else {
		c.kind, c.sets = setKind, replicaSets(cfg)
		c.setIndex = c.sets.cache.GetIndexer()
		indexSets(c.setIndex)
	}
	c.queue = sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: queue})
	c.written = workload.NewWritten(podCache, workload.Cache{Resource: c.sets.resource, Versions: c.sets.cache})
	c.control = workload.NewPodControl(workload.PodControlConfig{
		Client: c.client, Recorder: cfg.Recorder, Pods: c.pods, Cache: podCache,
		Wrote: func(set workload.Owner, pod *corev1.Pod) { c.written.Add(set, wrotePod, pod) },
	})
	workload.IndexPods(c.podIndex)
	c.sets.handle(c.enqueue, func(set *appsv1.ReplicaSet) {
		c.forget(workload.Key(set))
		c.enqueue(set)
	})
	workload.Watch[corev1.Pod](pods.Informer(), c.sets.owners, c.enqueue)
	cfg.Process.GateWorkers(c.sets.cache.HasSynced)
	cfg.Process.GateWorkers(pods.Informer().HasSynced)
	c.queue.Work(c.sync)
}

func (c *controller) enqueue(set *appsv1.ReplicaSet) { c.queue.Add(workload.Key(set)) }

// forget removes what is known of the writes for a set.
func (c *controller) forget(set types.NamespacedName) {
	c.written.Forget(set)
	c.control.Forget(set)
}

// ConcernsPod reports whether a pod is controlled by a set of the configured kind, or is an orphan that
// a set in the informers' caches selects. Changes of other pods do not concern the controller.
func (cfg Config) ConcernsPod(pod *corev1.Pod) bool {
	if cfg.ReplicationControllers {
		return replicationOwners(cfg.Informers).Concern(pod)
	}
	return replicaSetOwners(cfg.Informers).Concern(pod)
}

// sync brings the pods of a set to their number, and writes the status.
//
// Upstream: pkg/controller/replicaset ReplicaSetController.syncReplicaSet (v1.36).
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	if !c.cfg.ActOnStaleCaches {
		if err := c.written.Seen(key); err != nil {
			return err
		}
	}
	set, err := c.sets.owners.Get(key.Namespace, key.Name)
	if err != nil {
		c.forget(key)
		return nil //nolint:nilerr // a lister fails with NotFound only
	}
	mayManage := c.control.Met(key)
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil //nolint:nilerr // a retry does not make it valid
	}
	active, terminating, err := c.members(ctx, set, selector)
	if err != nil {
		return err
	}
	var manageErr error
	if mayManage && set.DeletionTimestamp == nil {
		manageErr = c.manage(ctx, set, active)
	}
	now := c.cfg.Process.Now()
	status := newStatus(set, active, terminating, manageErr, now)
	if c.cfg.ReplicationControllers {
		status.TerminatingReplicas = nil // theirs has no such field
	}
	if err := c.writeStatus(ctx, set, status); err != nil {
		return err
	}
	if manageErr != nil {
		return manageErr
	}
	if seconds := set.Spec.MinReadySeconds; seconds > 0 && status.ReadyReplicas != status.AvailableReplicas {
		next := workload.NextAvailable(active, seconds, now)
		if next == 0 {
			next = time.Duration(seconds) * time.Second
		}
		c.queue.AddAfter(key, next)
	}
	return nil
}

// members returns the replicas of a set, and the number of its pods that are being deleted. It adopts
// and releases active pods.
func (c *controller) members(
	ctx context.Context, set *appsv1.ReplicaSet, selector labels.Selector,
) (active []*corev1.Pod, terminating int32, err error) {
	claims := workload.Claims[*corev1.Pod]{
		Owner: set, Kind: c.kind, What: "Pod",
		Match: func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) },
		Fresh: func(ctx context.Context) (metav1.Object, error) {
			return c.sets.read(ctx, set.Namespace, set.Name)
		},
		Patch: workload.PatchPods(c.client, func(pod *corev1.Pod) { c.written.Add(set, wrotePod, pod) }),
	}
	var candidates []*corev1.Pod
	for _, pod := range workload.Pods(c.podIndex, set, true) {
		switch {
		case workload.IsActive(pod):
			candidates = append(candidates, pod)
		case !workload.HasEnded(pod) && metav1.IsControlledBy(pod, set) && claims.Match(pod):
			terminating++
		}
	}
	active, err = claims.Claim(ctx, candidates)
	return active, terminating, err
}
