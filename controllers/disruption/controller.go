package disruption

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/sim"
)

// EventSource is the reporting component of the controller's events.
const EventSource = "controllermanager"

const (
	// deletionTimeout is how long an evicted pod is expected to be deleted.
	//
	// Upstream: pkg/controller/disruption DeletionTimeout.
	deletionTimeout = 2 * time.Minute
	// staleTimeout is how long a pod may have the condition of a disruption without being deleted.
	//
	// Upstream: pkg/controller/disruption stalePodDisruptionTimeout.
	staleTimeout = 2 * time.Minute
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	// Dynamic reads the scale of controllers that the controller has no cache of.
	Dynamic dynamic.Interface
	// Discover returns the namespaced resources that are served, each in its preferred version. A
	// partial result may accompany an error.
	Discover func() ([]*metav1.APIResourceList, error)
	Recorder record.EventRecorder
}

// controller is the disruption controller.
//
// Upstream: pkg/controller/disruption DisruptionController (v1.36).
type controller struct {
	cfg         Config
	budgets     policylisters.PodDisruptionBudgetLister
	pods        corelisters.PodLister
	controllers corelisters.ReplicationControllerLister
	replicaSets appslisters.ReplicaSetLister
	deployments appslisters.DeploymentLister
	sets        appslisters.StatefulSetLister
	queue       *sim.Queue[types.NamespacedName] // of budgets
	stale       *sim.Queue[types.NamespacedName] // of pods
}

// New adds the controller to its process. It registers with the informers, and adds two queues with
// one worker each to the process. It must be called before the host starts.
func New(cfg Config) {
	apps, core := cfg.Informers.Apps().V1(), cfg.Informers.Core().V1()
	budgets := cfg.Informers.Policy().V1().PodDisruptionBudgets()
	c := &controller{
		cfg: cfg, budgets: budgets.Lister(), pods: core.Pods().Lister(),
		controllers: core.ReplicationControllers().Lister(), replicaSets: apps.ReplicaSets().Lister(),
		deployments: apps.Deployments().Lister(), sets: apps.StatefulSets().Lister(),
		queue: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "disruption"}),
		stale: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "stale disruption"}),
	}
	eventhandler.Add(budgets.Informer(), func(_, budget *policyv1.PodDisruptionBudget) {
		c.queue.Add(keyOf(budget))
	}, nil)
	eventhandler.Add(core.Pods().Informer(), func(_, pod *corev1.Pod) { c.podChanged(pod) }, c.enqueueBudget)
	for _, informer := range []cache.SharedIndexInformer{
		budgets.Informer(), core.Pods().Informer(), core.ReplicationControllers().Informer(),
		apps.ReplicaSets().Informer(), apps.Deployments().Informer(), apps.StatefulSets().Informer(),
	} {
		cfg.Process.GateWorkers(informer.HasSynced)
	}
	c.queue.Work(c.sync)
	c.stale.Work(c.syncStale)
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// ConcernsPod reports whether the controller has something to do for a pod: a budget selects it, or
// it has the condition of a disruption.
func ConcernsPod(caches informers.SharedInformerFactory, pod *corev1.Pod) bool {
	return MayBeStale(pod) || len(selecting(caches.Policy().V1().PodDisruptionBudgets().Lister(), pod)) > 0
}

// selecting returns the budgets that select a pod, by name.
func selecting(budgets policylisters.PodDisruptionBudgetLister, pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	all, _ := budgets.PodDisruptionBudgets(pod.Namespace).List(labels.Everything()) // a lister does not fail
	var found []*policyv1.PodDisruptionBudget
	for _, budget := range all {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	return sorted(found)
}

// podChanged adds the budget of a pod, and the pod if it may have to be reset.
//
// Upstream: pkg/controller/disruption DisruptionController.addPod, updatePod.
func (c *controller) podChanged(pod *corev1.Pod) {
	c.enqueueBudget(pod)
	if MayBeStale(pod) {
		c.stale.AddAfter(keyOf(pod), c.untilStale(pod))
	}
}

// enqueueBudget adds the budget of a pod.
//
// Upstream: pkg/controller/disruption DisruptionController.getPdbForPod.
func (c *controller) enqueueBudget(pod *corev1.Pod) {
	budgets := selecting(c.budgets, pod)
	if len(budgets) == 0 {
		return
	}
	if len(budgets) > 1 {
		c.cfg.Recorder.Eventf(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, budgets[0].Name)
	}
	c.queue.Add(keyOf(budgets[0]))
}

// sync updates the status of a budget. If the pods cannot be counted, it allows no disruption.
//
// Upstream: pkg/controller/disruption DisruptionController.sync, failSafe.
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	budget, err := c.budgets.PodDisruptionBudgets(key.Namespace).Get(key.Name)
	if err != nil {
		return nil // a lister fails with NotFound only
	}
	if err = c.trySync(ctx, budget); err == nil || apierrors.IsConflict(err) {
		return err
	}
	failed := budget.DeepCopy()
	failed.Status.DisruptionsAllowed = 0
	c.setCondition(failed, metav1.ConditionFalse, policyv1.SyncFailedReason, err.Error())
	return c.write(ctx, failed)
}

func (c *controller) write(ctx context.Context, budget *policyv1.PodDisruptionBudget) error {
	_, err := c.cfg.Client.PolicyV1().PodDisruptionBudgets(budget.Namespace).UpdateStatus(ctx, budget, metav1.UpdateOptions{})
	return err
}

// setCondition sets the condition that says whether disruptions are allowed.
func (c *controller) setCondition(budget *policyv1.PodDisruptionBudget, status metav1.ConditionStatus, reason, msg string) {
	apimeta.SetStatusCondition(&budget.Status.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: status, Reason: reason, Message: msg,
		ObservedGeneration: budget.Status.ObservedGeneration,
		LastTransitionTime: metav1.Time{Time: time.Unix(c.cfg.Process.Now().Unix(), 0).UTC()},
	})
}

// trySync counts the pods of a budget and writes its status if that changes it.
//
// Upstream: pkg/controller/disruption DisruptionController.trySync, updatePdbStatus.
func (c *controller) trySync(ctx context.Context, budget *policyv1.PodDisruptionBudget) error {
	pods, err := c.podsOf(budget)
	if err != nil {
		c.cfg.Recorder.Eventf(budget, corev1.EventTypeWarning, "NoPods", "Failed to get pods: %v", err)
		return err
	}
	if len(pods) == 0 {
		c.cfg.Recorder.Event(budget, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	expected, desired, unmanaged, err := c.expected(ctx, budget, pods)
	if err != nil {
		c.cfg.Recorder.Eventf(budget, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			"Failed to calculate the number of expected pods: %v", err)
		return err
	}
	if unmanaged {
		c.cfg.Recorder.Eventf(budget, corev1.EventTypeWarning, "UnmanagedPods",
			"Pods selected by this PodDisruptionBudget (selector: %v) were found "+
				"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in "+
				"undefined behavior. To account for these pods please set \".spec.minAvailable\" "+
				"field of the PDB to an integer value.", budget.Spec.Selector)
	}
	now := c.cfg.Process.Now()
	disrupted, recheck := c.disrupted(budget, pods, now)
	status := policyv1.PodDisruptionBudgetStatus{
		CurrentHealthy: healthy(pods, disrupted), DesiredHealthy: desired, ExpectedPods: expected,
		DisruptedPods: disrupted, ObservedGeneration: budget.Generation, Conditions: budget.Status.Conditions,
	}
	if expected > 0 {
		status.DisruptionsAllowed = max(0, status.CurrentHealthy-desired)
	}
	changed := budget.DeepCopy()
	status.DeepCopyInto(&changed.Status)
	if status.DisruptionsAllowed > 0 {
		c.setCondition(changed, metav1.ConditionTrue, policyv1.SufficientPodsReason, "")
	} else {
		c.setCondition(changed, metav1.ConditionFalse, policyv1.InsufficientPodsReason, "")
	}
	if !equality.Semantic.DeepEqual(changed.Status, budget.Status) {
		if err := c.write(ctx, changed); err != nil {
			return err
		}
	}
	if !recheck.IsZero() {
		c.queue.AddAfter(keyOf(budget), recheck.Sub(now))
	}
	return nil
}

// podsOf returns the pods that a budget selects, by name.
func (c *controller) podsOf(budget *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return nil, err
	}
	pods, err := c.pods.Pods(budget.Namespace).List(selector)
	return sorted(pods), err
}

// disrupted returns which evicted pods are still expected to be deleted, and when the first of them
// must have been.
//
// Upstream: pkg/controller/disruption DisruptionController.buildDisruptedPodMap.
func (c *controller) disrupted(budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod, now time.Time) (map[string]metav1.Time, time.Time) {
	left := map[string]metav1.Time{}
	var recheck time.Time
	for _, pod := range pods {
		at, ok := budget.Status.DisruptedPods[pod.Name]
		if !ok || pod.DeletionTimestamp != nil {
			continue
		}
		limit := at.Add(deletionTimeout)
		if !limit.After(now) {
			//nolint:dupword // upstream names the namespace twice
			c.cfg.Recorder.Eventf(pod, corev1.EventTypeWarning, "NotDeleted",
				"Pod was expected by PDB %s/%s to be deleted but it wasn't", budget.Namespace, budget.Namespace)
			continue
		}
		if recheck.IsZero() || limit.Before(recheck) {
			recheck = limit
		}
		left[pod.Name] = at
	}
	return left, recheck
}

// healthy returns how many pods are ready and not expected to go.
//
// Upstream: pkg/controller/disruption countHealthyPods.
func healthy(pods []*corev1.Pod, disrupted map[string]metav1.Time) int32 {
	n := int32(0)
	for _, pod := range pods {
		if _, leaving := disrupted[pod.Name]; pod.DeletionTimestamp == nil && !leaving && workload.Ready(pod) != nil {
			n++
		}
	}
	return n
}
