package defaultpreemption

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "DefaultPreemption"

// How many candidates are compared, at least.
//
// Upstream: pkg/scheduler/apis/config/v1 SetDefaults_DefaultPreemptionArgs (v1.36).
const (
	candidatesMinPercentage = 10
	candidatesMin           = 100
)

// Config is what the plugin needs of its scheduler.
type Config struct {
	Recorder record.EventRecorder
	// Filter says whether the pod of a cycle fits on a node, also if the pods come that are nominated for it.
	Filter func(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status
	// Changers are the plugins with states about other pods, in their order.
	Changers []framework.PodChanger
	// Nominated returns the pods that are nominated for a node.
	Nominated func(node string) []*framework.PodInfo
	// Activate queues a pod whose preemption failed.
	Activate func(pod *corev1.Pod)
	// Cancel ends the binding of a victim that is not on its node yet, if that is still possible. nil: it is not.
	Cancel func(victim *corev1.Pod, message string) bool
	// Extend asks the extenders about victims, by node. It returns those that remain. nil: there are no
	// extenders.
	Extend func(ctx context.Context, pod *corev1.Pod, victims map[string]*extenderv1.Victims, on *framework.Snapshot) (
		map[string]*extenderv1.Victims, error)
	// How many candidates are compared, at least: a percentage of the nodes, and a number. Both 0: 10 and 100.
	MinCandidateNodesPercentage, MinCandidateNodesAbsolute int
}

// Plugin preempts pods.
type Plugin struct {
	framework.Handle
	cfg  Config
	pods corelisters.PodLister
	// preempting has the pods whose preemption is not done yet, and what is left of it.
	preempting map[types.UID]*preemption
}

var (
	_ framework.PostFilterer = (*Plugin)(nil)
	_ framework.PreEnqueuer  = (*Plugin)(nil)
)

// New returns the plugin. It has a cache of pods.
//
// Upstream: plugins/defaultpreemption New (v1.36).
func New(h framework.Handle, cfg Config) *Plugin {
	if cfg.MinCandidateNodesPercentage == 0 && cfg.MinCandidateNodesAbsolute == 0 {
		cfg.MinCandidateNodesPercentage, cfg.MinCandidateNodesAbsolute = candidatesMinPercentage, candidatesMin
	}
	return &Plugin{Handle: h, cfg: cfg, pods: h.Informers.Core().V1().Pods().Lister(), preempting: map[types.UID]*preemption{}}
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return Name }

// Events returns nothing: the plugins that rejected the pod know when to try again.
//
// Upstream: plugins/defaultpreemption DefaultPreemption.EventsToRegister (v1.36).
func (p *Plugin) Events() []framework.EventHint { return nil }

// PostFilter looks for a node where pods of lower priority can be preempted, and begins to.
//
// Upstream: plugins/defaultpreemption DefaultPreemption.PostFilter (v1.36).
func (p *Plugin) PostFilter(ctx context.Context, cycle *framework.Cycle, why *framework.Diagnosis) (nominated string, clear bool, status *framework.Status) {
	nominated, clear, status = p.preempt(ctx, cycle, why)
	switch text := "preemption: " + status.Message(); {
	case status == nil:
	case status.CodeOf() == framework.Error:
		status = framework.AsStatus(errors.New(text))
	default:
		status = framework.NewStatus(status.Code, text)
	}
	return nominated, clear, status
}

// preempt chooses a node and its victims.
//
// Upstream: pkg/scheduler/framework/preemption Evaluator.Preempt (v1.36).
func (p *Plugin) preempt(ctx context.Context, cycle *framework.Cycle, why *framework.Diagnosis) (nominated string, clear bool, status *framework.Status) {
	pod, err := p.pods.Pods(cycle.APIPod().Namespace).Get(cycle.APIPod().Name)
	if err != nil {
		return "", false, framework.AsStatus(err)
	}
	if reason := ineligible(pod, cycle.Snapshot, why); reason != "" {
		return "", false, framework.NewStatus(framework.Unschedulable, reason)
	}
	candidates, rejected, err := p.candidates(ctx, cycle, pod, why)
	if len(candidates) == 0 {
		if err != nil {
			return "", false, framework.AsStatus(err)
		}
		d := framework.Diagnosis{
			NodesMax: len(cycle.Snapshot.Nodes()), ByNode: rejected,
			Others: framework.NewStatus(framework.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling"),
		}
		return "", true, framework.NewStatus(framework.Unschedulable, d.Error())
	}
	if candidates, err = p.extend(ctx, cycle, pod, candidates); err != nil {
		return "", false, framework.AsStatus(err)
	}
	if len(candidates) == 0 {
		return "", false, framework.NewStatus(framework.Unschedulable, "no candidate node for preemption")
	}
	best := choose(candidates, p.Process.Now())
	p.begin(pod, best)
	return best.node, false, nil
}

// ineligible returns why a pod may not preempt others: its policy, or that it did, and a victim is still
// on its nominated node.
//
// Upstream: plugins/defaultpreemption PodEligibleToPreemptOthers (v1.36).
func ineligible(pod *corev1.Pod, on *framework.Snapshot, why *framework.Diagnosis) string {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever {
		return "not eligible due to preemptionPolicy=Never."
	}
	nominated := pod.Status.NominatedNodeName
	if nominated == "" || why.StatusOf(nominated).CodeOf() == framework.UnschedulableAndUnresolvable {
		return ""
	}
	if node := on.Node(nominated); node != nil {
		for _, other := range node.Pods {
			if isLower(other.Pod, pod) && isVictim(other.Pod) {
				return "not eligible due to a terminating pod on the nominated node."
			}
		}
	}
	return ""
}

// isLower reports whether the priority of a pod is lower than that of another.
//
// Upstream: plugins/defaultpreemption isPreemptionAllowed (v1.36).
func isLower(pod, than *corev1.Pod) bool {
	return corev1helpers.PodPriority(pod) < corev1helpers.PodPriority(than)
}

// isVictim reports whether a pod is being deleted since it was preempted.
//
// Upstream: plugins/defaultpreemption podTerminatingByPreemption (v1.36).
func isVictim(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	return i >= 0 && pod.Status.Conditions[i].Status == corev1.ConditionTrue &&
		pod.Status.Conditions[i].Reason == corev1.PodReasonPreemptionByScheduler
}
