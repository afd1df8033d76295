package daemonset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/sim"
)

// EventSource is the component that reports the controller's events.
const EventSource = "daemonset-controller"

var setKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// The caches that must have the controller's own writes. That of revisions need not: a revision is
// found again by its name.
const (
	wrotePod = iota
	wroteSet
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // as EventSource
	// ActOnStaleCaches syncs a set also while a cache lacks writes that the controller made for it. It
	// creates and deletes no pod while the cache of pods lacks a creation or a deletion, in any case.
	//
	// Upstream: the feature gate StaleControllerConsistencyDaemonSet, which is on since 1.36.
	ActOnStaleCaches bool
}

// controller is the DaemonSet controller.
//
// Upstream: pkg/controller/daemon DaemonSetsController (v1.36).
type controller struct {
	cfg      Config
	client   kubernetes.Interface
	recorder record.EventRecorder
	sets     appslisters.DaemonSetLister
	nodes    corelisters.NodeLister
	history  appslisters.ControllerRevisionLister
	podIndex cache.Indexer
	written  *workload.Written
	control  *workload.PodControl
	failed   failures
	queue    *sim.Queue[types.NamespacedName] // of sets
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker to the process. It must be called before the host starts.
//
// Differs: upstream has two workers for sets, and a queue of nodes whose workers decide which sets a
// change concerns. Here the notification of the change decides.
func New(cfg Config) {
	sets, revisions := cfg.Informers.Apps().V1().DaemonSets(), cfg.Informers.Apps().V1().ControllerRevisions()
	pods, nodes := cfg.Informers.Core().V1().Pods(), cfg.Informers.Core().V1().Nodes()
	podCache := workload.Cache{Resource: "pods", Versions: pods.Informer()}
	c := &controller{
		cfg: cfg, client: cfg.Client, recorder: cfg.Recorder,
		sets: sets.Lister(), nodes: nodes.Lister(), history: revisions.Lister(), podIndex: pods.Informer().GetIndexer(),
		written: workload.NewWritten(podCache, workload.Cache{Resource: "daemonsets.apps", Versions: sets.Informer()}),
		failed:  failures{},
		queue:   sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "daemonset"}),
	}
	c.control = workload.NewPodControl(workload.PodControlConfig{
		Client: c.client, Recorder: c.recorder, Pods: pods.Lister(), Cache: podCache,
		Wrote: func(set workload.Owner, pod *corev1.Pod) { c.written.Add(set, wrotePod, pod) },
	})
	workload.IndexPods(c.podIndex)
	eventhandler.Add(sets.Informer(), func(_, set *appsv1.DaemonSet) { c.enqueue(set) }, func(set *appsv1.DaemonSet) {
		c.forget(workload.Key(set))
		c.failed.forget(set.UID)
		c.enqueue(set)
	})
	workload.Watch[corev1.Pod](pods.Informer(), owners(c.sets), c.enqueue)
	ofRevisions := owners(c.sets)
	ofRevisions.IgnoresAdded = true // upstream: addHistory
	workload.Watch[appsv1.ControllerRevision](revisions.Informer(), ofRevisions, c.enqueue)
	eventhandler.Add(nodes.Informer(), c.nodeChanged, nil)
	for _, informer := range []cache.SharedIndexInformer{
		sets.Informer(), pods.Informer(), nodes.Informer(), revisions.Informer(),
	} {
		cfg.Process.GateWorkers(informer.HasSynced)
	}
	c.queue.Work(c.sync)
}

func (c *controller) enqueue(set *appsv1.DaemonSet) { c.queue.Add(workload.Key(set)) }

// forget removes what is known of the writes for a set.
func (c *controller) forget(set types.NamespacedName) {
	c.written.Forget(set)
	c.control.Forget(set)
}

// nodeChanged adds the sets that have something to do on a node: one needs a pod there or must not have
// it any more, or its status may count a pod wrongly.
//
// Differs: a node that is added with a pod counts again. Upstream's status lacks it until another event,
// for example if a node is deleted and created again while its pod runs.
//
// Upstream: pkg/controller/daemon DaemonSetsController.syncNodeUpdate (v1.36).
func (c *controller) nodeChanged(old, node *corev1.Node) {
	if !isOther(old, node) {
		return
	}
	sets, err := c.sets.List(labels.Everything())
	if err != nil {
		return // a lister does not fail
	}
	slices.SortFunc(sets, func(a, b *appsv1.DaemonSet) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, set := range sets {
		on := newSelection(set)
		has := slices.ContainsFunc(workload.Pods(c.podIndex, set, false), func(pod *corev1.Pod) bool {
			return pod.Spec.NodeName == node.Name
		})
		switch what := on.of(node); {
		case what == fit && !has, what == unfit && has, has && (old == nil || set.Status.NumberMisscheduled > 0):
			c.enqueue(set)
		}
	}
}

// isOther reports whether a node is new, or has other labels or taints.
//
// Upstream: pkg/controller/daemon shouldIgnoreNodeUpdate (v1.36).
func isOther(old, node *corev1.Node) bool {
	return old == nil || !equality.Semantic.DeepEqual(old.Labels, node.Labels) ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints)
}

// owners returns the sets of a lister.
func owners(sets appslisters.DaemonSetLister) workload.Owners[*appsv1.DaemonSet] {
	return workload.Owners[*appsv1.DaemonSet]{
		Kind: setKind.Kind,
		Get: func(namespace, name string) (*appsv1.DaemonSet, error) {
			return sets.DaemonSets(namespace).Get(name)
		},
		List: func(namespace string) ([]*appsv1.DaemonSet, error) {
			return sets.DaemonSets(namespace).List(labels.Everything())
		},
		Selector: func(set *appsv1.DaemonSet) *metav1.LabelSelector { return set.Spec.Selector },
	}
}

// Concerns reports whether a change of a pod, ControllerRevision or node concerns the controller. A pod
// or revision does if a DaemonSet controls it, or if it is an orphan that a set in the informers'
// caches selects. A node does if it is new, or has other labels or taints. old is nil for an object
// that is added, obj for one that is removed.
func Concerns(seen informers.SharedInformerFactory, old, obj metav1.Object) bool {
	if node, is := obj.(*corev1.Node); is {
		before, _ := old.(*corev1.Node)
		return isOther(before, node)
	}
	if _, is := old.(*corev1.Node); is {
		return false
	}
	of := owners(seen.Apps().V1().DaemonSets().Lister())
	return old != nil && of.Concern(old) || obj != nil && of.Concern(obj)
}

// sync brings the pods of a set one step further, and writes the status.
//
// Upstream: pkg/controller/daemon DaemonSetsController.syncDaemonSet, updateDaemonSet (v1.36).
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	if !c.cfg.ActOnStaleCaches {
		if err := c.written.Seen(key); err != nil {
			return err
		}
	}
	set, err := c.sets.DaemonSets(key.Namespace).Get(key.Name)
	if err != nil {
		c.forget(key)
		return nil //nolint:nilerr // a lister fails with NotFound only
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	switch {
	case err != nil:
		return nil //nolint:nilerr // a retry does not make it valid
	case selector.Empty():
		c.recorder.Event(set, corev1.EventTypeWarning, "SelectingAll",
			"This daemon set is selecting all pods. A non-empty selector is required.")
		return nil
	case set.DeletionTimestamp != nil:
		return nil
	}
	current, old, err := c.ensureRevision(ctx, set, selector)
	if err != nil {
		return fmt.Errorf("failed to construct revisions of DaemonSet: %w", err)
	}
	hash := current.Labels[hashLabel]
	if !c.control.Met(key) {
		return c.writeStatus(ctx, set, selector, hash, false)
	}
	err = c.advance(ctx, set, selector, hash)
	if err == nil {
		err = c.truncate(ctx, set, selector, old)
	}
	if statusErr := c.writeStatus(ctx, set, selector, hash, true); err == nil {
		err = statusErr
	}
	return err
}

// advance creates and deletes pods. If the cache has that already, it replaces outdated ones.
func (c *controller) advance(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector, hash string) error {
	s, err := c.state(ctx, set, selector, hash)
	if err != nil {
		return err
	}
	if err := c.carryOut(ctx, set, hash, s.manage()); err != nil {
		return err
	}
	if !c.control.Met(workload.Key(set)) || set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return nil
	}
	if s, err = c.state(ctx, set, selector, hash); err != nil {
		return err
	}
	p, err := s.roll()
	if err != nil {
		return err
	}
	return c.carryOut(ctx, set, hash, p)
}

// state reads what a decision about a set depends on. It adopts and releases pods.
func (c *controller) state(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector, hash string) (*state, error) {
	pods, err := c.members(ctx, set, selector)
	if err != nil {
		return nil, err
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	s := newState(set, nodes, pods, hash, c.cfg.Process.Now())
	s.mayDelete = func(pod *corev1.Pod, node string) bool { return c.mayDelete(set, pod, node, s.now) }
	s.report = func(eventType, reason, message string) { c.recorder.Event(set, eventType, reason, message) }
	return s, nil
}

// members returns the pods of a set, by name. It adopts orphans and releases pods that the set does
// not select.
//
// Upstream: pkg/controller/daemon DaemonSetsController.getDaemonPods (v1.36).
func (c *controller) members(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector) ([]*corev1.Pod, error) {
	claims := workload.Claims[*corev1.Pod]{
		Owner: set, Kind: setKind, What: "Pod", Fresh: c.fresh(set),
		Match: func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) },
		Patch: workload.PatchPods(c.client, func(pod *corev1.Pod) { c.written.Add(set, wrotePod, pod) }),
	}
	return claims.Claim(ctx, workload.Pods(c.podIndex, set, true))
}

// fresh returns a function that reads a set from the server.
func (c *controller) fresh(set *appsv1.DaemonSet) func(ctx context.Context) (metav1.Object, error) {
	return func(ctx context.Context) (metav1.Object, error) {
		return c.client.AppsV1().DaemonSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	}
}

// The back-off of failed pods.
//
// Upstream: cmd/kube-controller-manager/app newDaemonSetController (v1.36).
const (
	backoffMin = time.Second
	backoffMax = 15 * time.Minute
)

// failures has when a failed pod of a set was last deleted on a node, and how long the next one stays.
type failures map[failureKey]failure

type failureKey struct {
	set        types.UID
	generation int64 // that the controller has observed
	node       string
}

type failure struct {
	last  time.Time
	delay time.Duration
}

// mayDelete reports whether a failed pod is deleted now. If not, the set is synced later.
//
// Upstream: client-go util/flowcontrol Backoff (v1.36).
func (c *controller) mayDelete(set *appsv1.DaemonSet, pod *corev1.Pod, node string, now time.Time) bool {
	key := failureKey{set.UID, set.Status.ObservedGeneration, node}
	f, known := c.failed[key]
	known = known && now.Sub(f.last) <= 2*backoffMax
	if known && now.Sub(f.last) < f.delay {
		c.queue.AddAfter(workload.Key(set), f.delay)
		return false
	}
	delay := backoffMin
	if known {
		delay = min(2*f.delay, backoffMax)
	}
	c.failed[key] = failure{now, delay}
	return true
}

// forget removes what is known of a set.
func (f failures) forget(set types.UID) {
	for key := range f {
		if key.set == set {
			delete(f, key)
		}
	}
}
