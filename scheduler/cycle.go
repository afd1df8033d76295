package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// How many of the nodes that can run a pod are looked for.
//
// Upstream: pkg/scheduler minFeasibleNodesToFind, minFeasibleNodesPercentageToFind (v1.36).
const (
	feasibleMin           = 100
	feasiblePercentageMin = 5
)

// A verdict is what a cycle decided: the pod's node, or why there is none. Of the latter, err is an error
// and no rejection.
type verdict struct {
	node      string
	diagnosis *framework.Diagnosis
	err       error
	nominated string // the node on which a preemption makes room
	clear     bool   // the pod's nomination ends
}

// decide chooses a node for a pod.
//
// Upstream: pkg/scheduler schedulingAlgorithm, schedulePod (v1.36).
func (c *profile) decide(ctx context.Context, cycle *framework.Cycle) verdict {
	d := &framework.Diagnosis{NodesMax: len(cycle.Snapshot.Nodes())}
	if d.NodesMax == 0 {
		return verdict{diagnosis: d, clear: true}
	}
	feasible, err := c.feasibleNodes(ctx, cycle, d)
	if err != nil {
		return verdict{err: err, clear: true}
	}
	if len(feasible) == 0 {
		return c.postFilter(ctx, cycle, d)
	}
	if len(feasible) == 1 {
		return verdict{node: feasible[0].Name()}
	}
	node, err := c.best(ctx, cycle, feasible)
	return verdict{node: node, err: err, clear: err != nil}
}

// postFilter looks for a way to make room for a pod that fits nowhere.
//
// Upstream: pkg/scheduler/framework/runtime RunPostFilterPlugins (v1.36).
func (c *profile) postFilter(ctx context.Context, cycle *framework.Cycle, d *framework.Diagnosis) verdict {
	v := verdict{diagnosis: d}
	var reasons []string
	for _, p := range c.plugins.postFilters {
		nominated, ends, status := p.PostFilter(ctx, cycle, d)
		switch status.CodeOf() {
		case framework.Success, framework.UnschedulableAndUnresolvable:
			v.nominated, v.clear, d.PostFilter = nominated, ends, status.Message()
			return v
		case framework.Unschedulable:
			if nominated != "" || ends {
				v.nominated, v.clear = nominated, ends
			}
			reasons = append(reasons, status.Reasons...)
		default:
			d.PostFilter = status.Message()
			return verdict{diagnosis: d}
		}
	}
	d.PostFilter = strings.Join(reasons, ", ")
	return v
}

// feasibleNodes returns nodes that can run a pod. If there are none, the diagnosis says why.
//
// Upstream: pkg/scheduler findNodesThatFitPod (v1.36).
func (c *profile) feasibleNodes(ctx context.Context, cycle *framework.Cycle, d *framework.Diagnosis) ([]*framework.NodeInfo, error) {
	named, narrowedBy, status := c.preFilter(cycle)
	switch {
	case status.IsRejected():
		d.PreFilter, d.Others = status.Message(), status
		d.AddPlugin(status.Plugin)
		for _, name := range narrowedBy {
			d.AddPlugin(name)
		}
		return nil, nil
	case status != nil:
		return nil, status.Err
	}
	if node := cycle.Snapshot.Node(cycle.APIPod().Status.NominatedNodeName); node != nil {
		if feasible, err := c.passing(ctx, cycle, []*framework.NodeInfo{node}, 1, d); err == nil && len(feasible) > 0 {
			return feasible, nil
		}
	}
	nodes := cycle.Snapshot.Nodes()
	if named != nil {
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *framework.NodeInfo) bool { return !named.Has(n.Name()) })
		d.Others = framework.NewStatus(framework.UnschedulableAndUnresolvable,
			"node(s) didn't satisfy plugin(s) ["+strings.Join(narrowedBy, " ")+"]")
		for _, name := range narrowedBy {
			d.AddPlugin(name)
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	start := c.nextNode % len(nodes)
	rotated := nodes
	if start > 0 {
		rotated = slices.Concat(nodes[start:], nodes[:start])
	}
	feasible, err := c.passing(ctx, cycle, rotated, c.nodesNeeded(len(nodes)), d)
	c.nextNode = (c.nextNode + len(feasible) + len(d.ByNode)) % d.NodesMax
	return feasible, err
}

// nodesNeeded returns how many feasible nodes a search needs: one if nothing ranks them and no extender
// may reject it.
//
// Upstream: pkg/scheduler findNodesThatPassFilters, hasScoring, hasExtenderFilters (v1.36).
func (c *profile) nodesNeeded(nodes int) int {
	if len(c.plugins.scorers) == 0 && !c.extenders.HavePrioritizer() && !c.extenders.HaveFilter() {
		return 1
	}
	return c.feasibleMax(nodes)
}

// feasibleMax returns how many feasible nodes suffice for a ranking.
//
// Upstream: pkg/scheduler numFeasibleNodesToFind (v1.36).
func (c *profile) feasibleMax(nodes int) int {
	if nodes < feasibleMin {
		return nodes
	}
	percentage := c.percentage
	if percentage == 0 {
		percentage = max(50-nodes/125, feasiblePercentageMin)
	}
	return max(nodes*percentage/100, feasibleMin)
}

// preFilter returns the names of the nodes that are eligible, nil for all, and the plugins that named
// them. A status rejects the pod, or is an error.
//
// Upstream: pkg/scheduler/framework/runtime RunPreFilterPlugins (v1.36).
func (c *profile) preFilter(cycle *framework.Cycle) (named sets.Set[string], by []string, rejected *framework.Status) {
	for _, p := range c.plugins.preFilters {
		nodes, status := p.PreFilter(cycle)
		switch status.CodeOf() {
		case framework.Success:
		case framework.Skip:
			cycle.SkipFilters = append(cycle.SkipFilters, p.Name())
			continue
		case framework.UnschedulableAndUnresolvable:
			status.Plugin = p.Name()
			return nil, nil, status
		case framework.Unschedulable: // a preemption needs the states of the other plugins
			status.Plugin, rejected = p.Name(), status
			continue
		default:
			return nil, nil, framework.AsStatus(fmt.Errorf("running PreFilter plugin %q: %w", p.Name(), status.Err))
		}
		if nodes == nil {
			continue
		}
		by = append(by, p.Name())
		if named != nil {
			nodes = named.Intersection(nodes)
		}
		if named = nodes; len(named) == 0 {
			text := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", slices.Sorted(slices.Values(by)))
			if len(by) == 1 {
				text = "node(s) didn't satisfy plugin " + by[0]
			}
			return nil, by, framework.NewStatus(framework.UnschedulableAndUnresolvable, text)
		}
	}
	return named, by, rejected
}

// passing returns the first nodes that all filters and extenders let pass, not more than needed.
//
// Upstream: pkg/scheduler findNodesThatPassFilters, findNodesThatPassExtenders (v1.36).
func (c *profile) passing(ctx context.Context, cycle *framework.Cycle, nodes []*framework.NodeInfo, needed int, d *framework.Diagnosis) ([]*framework.NodeInfo, error) {
	var feasible []*framework.NodeInfo
	for _, node := range nodes {
		if len(feasible) == needed {
			break
		}
		switch status := c.filterWithNominated(cycle, node); {
		case status == nil:
			feasible = append(feasible, node)
		case status.IsRejected():
			d.Reject(node.Name(), status)
		default:
			return nil, status.Err
		}
	}
	return c.extenders.Filter(ctx, cycle.APIPod(), feasible, d)
}

// filter returns why a node cannot run the pod, nil if it can.
//
// Upstream: pkg/scheduler/framework/runtime RunFilterPlugins (v1.36).
func (c *profile) filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	for _, p := range c.plugins.filters {
		if slices.Contains(cycle.SkipFilters, p.Name()) {
			continue
		}
		status := p.Filter(cycle, node)
		switch {
		case status == nil:
			continue
		case !status.IsRejected():
			status = framework.AsStatus(fmt.Errorf("running %q filter plugin: %w", p.Name(), status.Err))
		}
		status.Plugin = p.Name()
		return status
	}
	return nil
}

// filterWithNominated returns why a node cannot run the pod along with the pods for which there was
// made room, and without them.
//
// Upstream: pkg/scheduler/framework/runtime RunFilterPluginsWithNominatedPods (v1.36).
func (c *profile) filterWithNominated(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	if nominated := c.nominated.on(node.Name(), cycle.APIPod()); len(nominated) > 0 {
		with := cycle.Clone()
		more := node
		for _, pod := range nominated {
			more = more.With(pod)
			if status := c.plugins.AddPod(with, pod, more); status != nil {
				return status
			}
		}
		if status := c.filter(with, more); status != nil {
			return status
		}
	}
	return c.filter(cycle, node)
}

// AddPod tells the plugins about a pod that would come to a node.
//
// Upstream: pkg/scheduler/framework/runtime RunPreFilterExtensionAddPod (v1.36).
func (s *pluginSet) AddPod(cycle *framework.Cycle, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	return s.change(cycle, func(p framework.PodChanger) *framework.Status { return p.AddPod(cycle, pod, node) })
}

// RemovePod tells the plugins about a pod that would leave a node.
//
// Upstream: pkg/scheduler/framework/runtime RunPreFilterExtensionRemovePod (v1.36).
func (s *pluginSet) RemovePod(cycle *framework.Cycle, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	return s.change(cycle, func(p framework.PodChanger) *framework.Status { return p.RemovePod(cycle, pod, node) })
}

// change calls the plugins that have something to filter in a cycle.
func (s *pluginSet) change(cycle *framework.Cycle, call func(framework.PodChanger) *framework.Status) *framework.Status {
	for _, p := range s.preFilters {
		changer, ok := p.(framework.PodChanger)
		if !ok || slices.Contains(cycle.SkipFilters, p.Name()) {
			continue
		}
		if status := call(changer); status != nil {
			return status
		}
	}
	return nil
}

// best returns the node with the highest score, of several the first by name.
//
// Upstream: pkg/scheduler prioritizeNodes (v1.36).
//
// Differs: upstream chooses one of several by chance.
func (c *profile) best(ctx context.Context, cycle *framework.Cycle, nodes []*framework.NodeInfo) (string, error) {
	totals := make([]int64, len(nodes))
	scores := make([]int64, len(nodes))
	for _, p := range c.plugins.scorers {
		switch status := p.PreScore(cycle, nodes); {
		case status.CodeOf() == framework.Skip:
			continue
		case status != nil:
			return "", fmt.Errorf("running PreScore plugin %q: %w", p.Name(), status.Err)
		}
		for i, node := range nodes {
			score, status := p.Score(cycle, node)
			if status != nil {
				return "", fmt.Errorf("running Score plugins: plugin %q failed with: %w", p.Name(), status.Err)
			}
			scores[i] = score
		}
		if status := p.Normalize(cycle, scores); status != nil {
			return "", fmt.Errorf("running Score plugins: plugin %q failed with: %w", p.Name(), status.Err)
		}
		for i := range scores {
			totals[i] += scores[i] * p.weight
		}
	}
	more := c.extenders.Prioritize(ctx, cycle.APIPod(), nodes)
	best := 0
	for i := range totals {
		totals[i] += more[nodes[i].Name()]
		if totals[i] > totals[best] || totals[i] == totals[best] && nodes[i].Name() < nodes[best].Name() {
			best = i
		}
	}
	return nodes[best].Name(), nil
}

// isWaiting reports whether this scheduler must choose a node for a pod.
func (c *Controller) isWaiting(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
		!isOver(pod) && c.profileOf(pod) != nil
}

// isOver reports whether a pod has completed, so it uses no resources.
func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
