package defaultpreemption

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// A candidate is a node that has room for the pod if the victims are gone.
type candidate struct {
	node       string
	victims    []*corev1.Pod // the most important first
	violations int64         // how many victims have an exhausted disruption budget
}

// candidates returns the candidates, first those that violate no disruption budget, and why other nodes
// are none. An error does not keep others from being candidates.
//
// Upstream: pkg/scheduler/framework/preemption Evaluator.findCandidates, DryRunPreemption (v1.36).
func (p *Plugin) candidates(ctx context.Context, cycle *framework.Cycle, pod *corev1.Pod, why *framework.Diagnosis) (
	found []candidate, rejected map[string]*framework.Status, err error,
) {
	nodes := slices.Clone(cycle.Snapshot.Nodes())
	nodes = slices.DeleteFunc(nodes, func(n *framework.NodeInfo) bool {
		return why.StatusOf(n.Name()).CodeOf() != framework.Unschedulable
	})
	if len(nodes) == 0 {
		return nil, nil, nil
	}
	budgets, err := p.budgets(ctx, pod, nodes)
	if err != nil {
		return nil, nil, err
	}
	return p.dryRun(cycle, pod, nodes, budgets)
}

// candidatesMax returns how many candidates are enough, of a number of nodes.
//
// Upstream: plugins/defaultpreemption calculateNumCandidates (v1.36).
func (p *Plugin) candidatesMax(nodes int) int {
	return min(nodes, max(nodes*p.cfg.MinCandidateNodesPercentage/100, p.cfg.MinCandidateNodesAbsolute))
}

// budgets returns the disruption budgets, none if no pod could be preempted.
func (p *Plugin) budgets(ctx context.Context, pod *corev1.Pod, nodes []*framework.NodeInfo) ([]policyv1.PodDisruptionBudget, error) {
	if !slices.ContainsFunc(nodes, func(node *framework.NodeInfo) bool { return hasLower(node, pod) }) {
		return nil, nil
	}
	list, err := p.Client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list disruption budgets: %w", err)
	}
	return list.Items, nil
}

// hasLower reports whether a node has a pod of lower priority.
func hasLower(node *framework.NodeInfo, pod *corev1.Pod) bool {
	return slices.ContainsFunc(node.Pods, func(other *framework.PodInfo) bool { return isLower(other.Pod, pod) })
}

func (p *Plugin) dryRun(cycle *framework.Cycle, pod *corev1.Pod, nodes []*framework.NodeInfo, budgets []policyv1.PodDisruptionBudget) (
	[]candidate, map[string]*framework.Status, error,
) {
	var clean, violating []candidate
	var errs []error
	rejected := map[string]*framework.Status{}
	enough := p.candidatesMax(len(nodes))
	none := framework.NewStatus(framework.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod")
	for _, node := range nodes {
		if !hasLower(node, pod) {
			rejected[node.Name()] = none
			continue
		}
		victims, violations, status := p.victims(cycle.Clone(), pod, node, budgets)
		if status == nil && len(victims) == 0 {
			status = framework.AsStatus(fmt.Errorf("expected at least one victim pod on node %q", node.Name()))
		}
		switch c := (candidate{node: node.Name(), victims: victims, violations: violations}); {
		case status.CodeOf() == framework.Error:
			errs = append(errs, status.Err)
			rejected[node.Name()] = status
		case status != nil:
			rejected[node.Name()] = status
		case violations == 0:
			clean = append(clean, c)
		case len(violating) < enough:
			violating = append(violating, c)
		}
		if len(clean) > 0 && len(clean)+len(violating) >= enough {
			break
		}
	}
	return append(clean, violating...), rejected, utilerrors.NewAggregate(errs)
}

// victims returns the fewest pods that must leave a node for the pod to fit, the most important first, and
// how many of them have an exhausted disruption budget. It changes the cycle.
//
// Upstream: plugins/defaultpreemption SelectVictimsOnNode (v1.36).
func (p *Plugin) victims(cycle *framework.Cycle, pod *corev1.Pod, node *framework.NodeInfo, budgets []policyv1.PodDisruptionBudget) (
	victims []*corev1.Pod, violations int64, status *framework.Status,
) {
	s := &supposition{Plugin: p, cycle: cycle, node: node}
	var lower []*framework.PodInfo
	for _, other := range node.Pods {
		if isLower(other.Pod, pod) {
			lower = append(lower, other)
		}
	}
	for _, other := range lower {
		if status := s.remove(other); status != nil {
			return nil, 0, status
		}
	}
	if status := p.cfg.Filter(cycle, s.node); status != nil {
		return nil, 0, status
	}
	now := p.Process.Now()
	slices.SortStableFunc(lower, func(a, b *framework.PodInfo) int { return byImportance(a.Pod, b.Pod, now) })
	exhausted, others := byBudget(lower, budgets)
	for i, other := range slices.Concat(exhausted, others) {
		stays, status := s.mayStay(other)
		if status != nil {
			return nil, 0, status
		}
		if !stays {
			victims = append(victims, other.Pod)
			if i < len(exhausted) {
				violations++
			}
		}
	}
	slices.SortStableFunc(victims, func(a, b *corev1.Pod) int { return byImportance(a, b, now) })
	return victims, violations, nil
}

// A supposition is a node on which pods are supposed to be gone.
type supposition struct {
	*Plugin
	cycle *framework.Cycle
	node  *framework.NodeInfo
}

// mayStay reports whether there is room for the pod also if another one stays. It stays or goes
// accordingly.
func (s *supposition) mayStay(other *framework.PodInfo) (stays bool, status *framework.Status) {
	if status := s.add(other); status != nil {
		return false, status
	}
	if s.cfg.Filter(s.cycle, s.node) == nil {
		return true, nil
	}
	return false, s.remove(other)
}

func (s *supposition) add(pod *framework.PodInfo) *framework.Status {
	s.node = s.node.With(pod)
	return s.change("AddPod", func(c framework.PodChanger) *framework.Status { return c.AddPod(s.cycle, pod, s.node) })
}

func (s *supposition) remove(pod *framework.PodInfo) *framework.Status {
	s.node = s.node.Without(pod.Pod.UID)
	return s.change("RemovePod", func(c framework.PodChanger) *framework.Status { return c.RemovePod(s.cycle, pod, s.node) })
}

// change calls the plugins that do not skip the cycle. It returns the first error.
//
// Upstream: pkg/scheduler/framework/runtime RunPreFilterExtensionAddPod, RunPreFilterExtensionRemovePod (v1.36).
func (s *supposition) change(verb string, call func(framework.PodChanger) *framework.Status) *framework.Status {
	for _, changer := range s.cfg.Changers {
		plugin, ok := changer.(framework.Plugin)
		if ok && slices.Contains(s.cycle.SkipFilters, plugin.Name()) {
			continue
		}
		switch status := call(changer); {
		case status.CodeOf() == framework.Success:
		case !ok: // several plugins
			return status
		default:
			return framework.AsStatus(fmt.Errorf("running %s on PreFilter plugin %q: %s", verb, plugin.Name(), status.Message()))
		}
	}
	return nil
}

// byBudget divides pods into those with a disruption budget that is exhausted if the pods before are
// gone, and the others. It keeps their order.
//
// Upstream: plugins/defaultpreemption filterPodsWithPDBViolation (v1.36).
func byBudget(pods []*framework.PodInfo, budgets []policyv1.PodDisruptionBudget) (exhausted, others []*framework.PodInfo) {
	allowed := make([]int32, len(budgets))
	selectors := make([]labels.Selector, len(budgets))
	for i := range budgets {
		allowed[i] = budgets[i].Status.DisruptionsAllowed
		if selector, err := metav1.LabelSelectorAsSelector(budgets[i].Spec.Selector); err == nil && !selector.Empty() {
			selectors[i] = selector // an invalid or empty one selects nothing
		}
	}
	for _, info := range pods {
		violated := false
		for i := range budgets {
			if !matches(&budgets[i], selectors[i], info.Pod) {
				continue
			}
			allowed[i]--
			violated = violated || allowed[i] < 0
		}
		if violated {
			exhausted = append(exhausted, info)
		} else {
			others = append(others, info)
		}
	}
	return exhausted, others
}

// matches reports whether a budget counts a pod that is evicted. A pod whose eviction the API server
// has already counted is none.
func matches(budget *policyv1.PodDisruptionBudget, selector labels.Selector, pod *corev1.Pod) bool {
	if selector == nil || len(pod.Labels) == 0 || budget.Namespace != pod.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	_, counted := budget.Status.DisruptedPods[pod.Name]
	return !counted
}

// extend asks the extenders which candidates remain.
//
// Upstream: pkg/scheduler/framework/preemption Evaluator.callExtenders (v1.36).
func (p *Plugin) extend(ctx context.Context, cycle *framework.Cycle, pod *corev1.Pod, candidates []candidate) ([]candidate, error) {
	if p.cfg.Extend == nil {
		return candidates, nil
	}
	victims := make(map[string]*extenderv1.Victims, len(candidates))
	for _, c := range candidates {
		victims[c.node] = &extenderv1.Victims{Pods: c.victims, NumPDBViolations: c.violations}
	}
	remaining, err := p.cfg.Extend(ctx, pod, victims, cycle.Snapshot)
	if err != nil {
		return nil, err
	}
	var extended []candidate
	for _, node := range cycle.Snapshot.Nodes() { // also one that an extender has added
		if v := remaining[node.Name()]; v != nil && len(v.Pods) > 0 {
			extended = append(extended, candidate{node: node.Name(), victims: v.Pods, violations: v.NumPDBViolations})
		}
	}
	return extended, nil
}
