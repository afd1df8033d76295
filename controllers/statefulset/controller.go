package statefulset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
const EventSource = "statefulset-controller"

var setKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // as EventSource
	// ActOnStaleCaches syncs a set also while a cache lacks writes that the controller made for it.
	//
	// Upstream: the feature gate StaleControllerConsistencyStatefulSet, which is on since 1.36.
	ActOnStaleCaches bool
	// MaxUnavailable obeys maxUnavailable of a rolling update. Without it one pod at a time is updated.
	//
	// Upstream: the feature gate MaxUnavailableStatefulSet, which is off in 1.36.
	MaxUnavailable bool
}

// controller is the StatefulSet controller.
//
// Upstream: pkg/controller/statefulset StatefulSetController (v1.36).
type controller struct {
	cfg       Config
	client    kubernetes.Interface
	recorder  record.EventRecorder
	sets      appslisters.StatefulSetLister
	pods      corelisters.PodLister
	claims    corelisters.PersistentVolumeClaimLister
	revisions appslisters.ControllerRevisionLister
	podIndex  cache.Indexer
	written   *workload.Written
	queue     *sim.Queue[types.NamespacedName] // of sets
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker to the process. It must be called before the host starts.
//
// Differs: upstream has five workers.
func New(cfg Config) {
	sets, revisions := cfg.Informers.Apps().V1().StatefulSets(), cfg.Informers.Apps().V1().ControllerRevisions()
	pods, claims := cfg.Informers.Core().V1().Pods(), cfg.Informers.Core().V1().PersistentVolumeClaims()
	c := &controller{
		cfg: cfg, client: cfg.Client, recorder: cfg.Recorder,
		sets: sets.Lister(), pods: pods.Lister(), claims: claims.Lister(), revisions: revisions.Lister(),
		podIndex: pods.Informer().GetIndexer(),
		written: workload.NewWritten(
			workload.Cache{Resource: "pods", Versions: pods.Informer()},
			workload.Cache{Resource: "persistentvolumeclaims", Versions: claims.Informer()},
			workload.Cache{Resource: "statefulsets.apps", Versions: sets.Informer()},
		),
		queue: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "statefulset"}),
	}
	workload.IndexPods(c.podIndex)
	eventhandler.Add(sets.Informer(), func(_, set *appsv1.StatefulSet) { c.enqueue(set) }, c.enqueue)
	workload.Watch[corev1.Pod](pods.Informer(), owners(c.sets), c.enqueue)
	eventhandler.Add(pods.Informer(), func(_, _ *corev1.Pod) {}, c.podGone)
	eventhandler.Add(claims.Informer(), func(_, _ *corev1.PersistentVolumeClaim) {}, c.claimGone)
	for _, informer := range []cache.SharedIndexInformer{
		sets.Informer(), pods.Informer(), claims.Informer(), revisions.Informer(),
	} {
		cfg.Process.GateWorkers(informer.HasSynced)
	}
	c.queue.Work(c.sync)
}

func (c *controller) enqueue(set *appsv1.StatefulSet) { c.queue.Add(workload.Key(set)) }

// podGone adds the set whose pod has the name of a deleted pod.
func (c *controller) podGone(pod *corev1.Pod) {
	if set := naming(c.sets, pod); set != nil {
		c.enqueue(set)
	}
}

// claimGone adds the set that has a place for a deleted claim: a pod may wait for its end.
//
// Differs: upstream does not watch claims. It learns of the end of a claim at the next retry, or with
// another event.
func (c *controller) claimGone(claim *corev1.PersistentVolumeClaim) {
	for _, set := range claiming(c.sets, claim) {
		c.enqueue(set)
	}
}

// ConcernsPod reports whether a pod is controlled by a StatefulSet, is an orphan that a set in the
// informers' caches selects, or has the name of a pod of such a set. Changes of other pods do not
// concern the controller.
func ConcernsPod(seen informers.SharedInformerFactory, pod *corev1.Pod) bool {
	sets := seen.Apps().V1().StatefulSets().Lister()
	return owners(sets).Concern(pod) || naming(sets, pod) != nil
}

// ConcernsClaim reports whether a change concerns the controller: a claim with the name of a claim of a
// set in the informers' caches is added, removed or about to be, or has other owners. old is nil for a
// claim that is added, claim for one that is removed.
func ConcernsClaim(seen informers.SharedInformerFactory, old, claim *corev1.PersistentVolumeClaim) bool {
	either := claim
	switch {
	case claim == nil:
		either = old
	case old == nil:
	case old.UID == claim.UID && old.DeletionTimestamp.Equal(claim.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(old.OwnerReferences, claim.OwnerReferences):
		return false
	}
	return len(claiming(seen.Apps().V1().StatefulSets().Lister(), either)) > 0
}

// naming returns the set whose pod has the name of this one; nil if there is none.
func naming(sets appslisters.StatefulSetLister, pod *corev1.Pod) *appsv1.StatefulSet {
	parent, ordinal := splitName(pod.Name)
	if ordinal < 0 {
		return nil
	}
	set, err := sets.StatefulSets(pod.Namespace).Get(parent)
	if err != nil {
		return nil // a lister fails with NotFound only
	}
	return set
}

// owners returns the sets of a lister.
func owners(sets appslisters.StatefulSetLister) workload.Owners[*appsv1.StatefulSet] {
	return workload.Owners[*appsv1.StatefulSet]{
		Kind: setKind.Kind,
		Get: func(namespace, name string) (*appsv1.StatefulSet, error) {
			return sets.StatefulSets(namespace).Get(name)
		},
		List: func(namespace string) ([]*appsv1.StatefulSet, error) {
			return sets.StatefulSets(namespace).List(labels.Everything())
		},
		Selector: func(set *appsv1.StatefulSet) *metav1.LabelSelector { return set.Spec.Selector },
	}
}

// claiming returns the sets that have a claim of this name, by name.
func claiming(sets appslisters.StatefulSetLister, claim *corev1.PersistentVolumeClaim) []*appsv1.StatefulSet {
	matches := func(set *appsv1.StatefulSet) bool {
		return slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
			parent, ordinal := splitName(claim.Name)
			return ordinal >= 0 && parent == t.Name+"-"+set.Name
		})
	}
	all, err := sets.StatefulSets(claim.Namespace).List(labels.Everything())
	if err != nil {
		return nil // a lister does not fail
	}
	var matching []*appsv1.StatefulSet
	for _, set := range all {
		if matches(set) {
			matching = append(matching, set)
		}
	}
	slices.SortFunc(matching, func(a, b *appsv1.StatefulSet) int { return strings.Compare(a.Name, b.Name) })
	return matching
}

// sync brings the pods, claims and revisions of a set one step further.
//
// Upstream: pkg/controller/statefulset StatefulSetController.sync, defaultStatefulSetControl
// UpdateStatefulSet (v1.36).
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	if !c.cfg.ActOnStaleCaches {
		if err := c.written.Seen(key); err != nil {
			return err
		}
	}
	set, err := c.sets.StatefulSets(key.Namespace).Get(key.Name)
	if err != nil {
		c.written.Forget(key)
		return nil // a lister fails with NotFound only
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil //nolint:nilerr // a retry does not make it valid
	}
	if err := c.adoptRevisions(ctx, set, selector); err != nil {
		return err
	}
	pods, err := c.members(ctx, set, selector)
	if err != nil {
		return err
	}
	past, err := c.history(set, selector)
	if err != nil {
		return err
	}
	at, err := c.ensureRevision(ctx, set, past)
	if err != nil {
		return err
	}
	return errors.Join(c.advance(ctx, set, pods, at), c.truncate(ctx, set, pods, past, at))
}

// advance decides what the set needs, does it, and writes the status.
func (c *controller) advance(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, at revisions) error {
	s, err := newState(set, pods, at)
	if err != nil {
		return fmt.Errorf("statefulset %s: %w", workload.Key(set), err)
	}
	s.now, s.maxUnavailable = c.cfg.Process.Now(), c.cfg.MaxUnavailable
	s.claim = func(name string) *corev1.PersistentVolumeClaim {
		claim, err := c.claims.PersistentVolumeClaims(set.Namespace).Get(name)
		if err != nil {
			return nil // a lister fails with NotFound only
		}
		return claim
	}
	p := s.decide()
	err = c.carryOut(ctx, set, &p)
	err = errors.Join(err, c.writeStatus(ctx, set, &p.status))
	if err == nil && p.checkAfter > 0 {
		c.queue.AddAfter(workload.Key(set), p.checkAfter)
	}
	return err
}
