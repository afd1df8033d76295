package deployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/sim"
)

// EventSource is the component that reports the controller's events.
const EventSource = "deployment-controller"

var (
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	setKind        = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
)

// The caches that must have the controller's own writes.
const (
	wroteSet = iota
	wroteDeployment
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // as EventSource
	// ActOnStaleCaches syncs a Deployment also while a cache lacks writes that the controller made for
	// it. It may then create a set although there is no place for its pods: see the rule I45 of package
	// invariant.
	//
	// Differs: upstream's controller always does so. KEP-5647 protects four other controllers.
	ActOnStaleCaches bool
}

// controller is the Deployment controller.
//
// Upstream: pkg/controller/deployment DeploymentController (v1.36).
type controller struct {
	cfg         Config
	client      kubernetes.Interface
	recorder    record.EventRecorder
	deployments appslisters.DeploymentLister
	sets        appslisters.ReplicaSetLister
	podIndex    cache.Indexer
	written     *workload.Written
	deadlines   *deadlines
	queue       *sim.Queue[types.NamespacedName] // of Deployments
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker and a timer to the process. It must be called before the host starts.
//
// Differs: upstream has five workers, and gives up after 15 failures.
func New(cfg Config) {
	deployments, sets := cfg.Informers.Apps().V1().Deployments(), cfg.Informers.Apps().V1().ReplicaSets()
	pods := cfg.Informers.Core().V1().Pods()
	c := &controller{
		cfg: cfg, client: cfg.Client, recorder: cfg.Recorder, deployments: deployments.Lister(), sets: sets.Lister(),
		podIndex: pods.Informer().GetIndexer(),
		written: workload.NewWritten(
			workload.Cache{Resource: "replicasets.apps", Versions: sets.Informer()},
			workload.Cache{Resource: "deployments.apps", Versions: deployments.Informer()},
		),
		queue: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "deployment"}),
	}
	c.deadlines = newDeadlines(cfg.Process, c.queue.Add)
	workload.IndexPods(c.podIndex)
	eventhandler.Add(deployments.Informer(), func(_, d *appsv1.Deployment) { c.enqueue(d) }, c.enqueue)
	workload.Watch[appsv1.ReplicaSet](sets.Informer(), owners(c.deployments), c.enqueue)
	eventhandler.Add(pods.Informer(), func(_, _ *corev1.Pod) {}, c.podGone)
	for _, informer := range []cache.SharedIndexInformer{deployments.Informer(), sets.Informer(), pods.Informer()} {
		cfg.Process.GateWorkers(informer.HasSynced)
	}
	c.queue.Work(func(ctx context.Context, key types.NamespacedName) error {
		err := c.sync(ctx, key)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil // a retry would fail, too
		}
		return err
	})
}

func (c *controller) enqueue(d *appsv1.Deployment) { c.queue.Add(workload.Key(d)) }

// podGone adds the Deployment of a deleted pod, if it waits for the end of its pods.
//
// Differs: upstream waits for the last one.
func (c *controller) podGone(pod *corev1.Pod) {
	if d := recreated(c.deployments, c.sets, pod); d != nil {
		c.enqueue(d)
	}
}

// recreated returns the Deployment of a pod, if its strategy is Recreate; else nil.
func recreated(
	deployments appslisters.DeploymentLister, sets appslisters.ReplicaSetLister, pod *corev1.Pod,
) *appsv1.Deployment {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != setKind.Kind {
		return nil
	}
	set, err := sets.ReplicaSets(pod.Namespace).Get(ref.Name)
	if err != nil || set.UID != ref.UID {
		return nil // a lister fails with NotFound only
	}
	d, ok := owners(deployments).Of(set)
	if !ok || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return d
}

// owners returns the Deployments of a lister.
func owners(deployments appslisters.DeploymentLister) workload.Owners[*appsv1.Deployment] {
	return workload.Owners[*appsv1.Deployment]{
		Kind: deploymentKind.Kind,
		Get: func(namespace, name string) (*appsv1.Deployment, error) {
			return deployments.Deployments(namespace).Get(name)
		},
		List: func(namespace string) ([]*appsv1.Deployment, error) {
			return deployments.Deployments(namespace).List(labels.Everything())
		},
		Selector: func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector },
	}
}

// Concerns reports whether a change of a ReplicaSet or pod concerns the controller: a Deployment controls
// the set, or the set is an orphan that a Deployment in the informers' caches selects, or the pod belongs
// to a Deployment whose strategy is Recreate. old is nil for an object that is added, obj for one that is
// removed.
func Concerns(seen informers.SharedInformerFactory, old, obj metav1.Object) bool {
	apps := seen.Apps().V1()
	return slices.ContainsFunc([]metav1.Object{old, obj}, func(each metav1.Object) bool {
		switch each := each.(type) {
		case *appsv1.ReplicaSet:
			return owners(apps.Deployments().Lister()).Concern(each)
		case *corev1.Pod:
			return recreated(apps.Deployments().Lister(), apps.ReplicaSets().Lister(), each) != nil
		}
		return false
	})
}

// sync brings a Deployment one step further.
//
// Upstream: pkg/controller/deployment DeploymentController.syncDeployment (v1.36).
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	if !c.cfg.ActOnStaleCaches {
		if err := c.written.Seen(key); err != nil {
			return err
		}
	}
	cached, err := c.deployments.Deployments(key.Namespace).Get(key.Name)
	if err != nil {
		c.written.Forget(key)
		c.deadlines.remove(key)
		return nil //nolint:nilerr // a lister fails with NotFound only
	}
	r := &rollout{controller: c, d: cached.DeepCopy(), now: metav1.NewTime(c.cfg.Process.Now())}
	sets, err := c.members(ctx, r.d)
	if err != nil {
		return err
	}
	r.split(sets)
	if r.d.DeletionTimestamp != nil {
		if err := r.syncRevision(ctx); err != nil {
			return err
		}
		return r.writeStatus(ctx, r.newStatus())
	}
	if err := r.notePause(ctx); err != nil {
		return err
	}
	if err := r.syncRevision(ctx); err != nil {
		return err
	}
	to, rollsBack := rollbackTo(r.d)
	switch {
	case r.d.Spec.Paused:
		return r.scale(ctx)
	case rollsBack:
		return r.rollBack(ctx, to)
	case r.wasScaled():
		return r.scale(ctx)
	case r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return r.recreate(ctx)
	default:
		return r.roll(ctx)
	}
}

// members returns the sets of a Deployment, the oldest first. It adopts and releases sets.
//
// Upstream: pkg/controller/deployment DeploymentController.getReplicaSetsForDeployment (v1.36).
func (c *controller) members(ctx context.Context, d *appsv1.Deployment) ([]*appsv1.ReplicaSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("deployment %s has invalid label selector: %w", workload.Key(d), err)
	}
	claims := workload.Claims[*appsv1.ReplicaSet]{
		Owner: d, Kind: deploymentKind, What: setKind.Kind,
		Match: func(set *appsv1.ReplicaSet) bool { return selector.Matches(labels.Set(set.Labels)) },
		Fresh: func(ctx context.Context) (metav1.Object, error) {
			return c.client.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
		},
		Patch: func(ctx context.Context, set *appsv1.ReplicaSet, patch []byte) error {
			patched, err := c.client.AppsV1().ReplicaSets(set.Namespace).
				Patch(ctx, set.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			if err == nil {
				c.written.Add(d, wroteSet, patched)
			}
			return err
		},
	}
	all, err := c.sets.ReplicaSets(d.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	slices.SortFunc(all, olderFirst)
	return claims.Claim(ctx, all)
}

// olderFirst is the order of sets by age.
//
// Upstream: pkg/controller ReplicaSetsByCreationTimestamp (v1.36).
func olderFirst(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}
