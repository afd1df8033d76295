package extender

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// A List has the extenders of a scheduler, in the order in which they are asked. nil has none.
type List []*Extender

// NewList returns the extenders of a configuration: ignorable ones come last. Those whose URL prefix has an
// endpoint receive requests there, others by HTTP.
//
// Upstream: pkg/scheduler buildExtenders (v1.36).
func NewList(process *sim.Process, configs []configv1.Extender, at map[string]*endpoint.Endpoint) (List, error) {
	var list, ignorable List
	for _, cfg := range configs {
		e, err := New(process, cfg, at[cfg.URLPrefix])
		if err != nil {
			return nil, err
		}
		if e.IsIgnorable() {
			ignorable = append(ignorable, e)
		} else {
			list = append(list, e)
		}
	}
	return append(list, ignorable...), nil
}

// HaveFilter reports whether an extender filters nodes.
//
// Upstream: pkg/scheduler hasExtenderFilters (v1.36).
func (l List) HaveFilter() bool { return slices.ContainsFunc(l, (*Extender).IsFilter) }

// HavePrioritizer reports whether an extender ranks nodes.
//
// Upstream: pkg/scheduler hasScoring (v1.36).
func (l List) HavePrioritizer() bool { return slices.ContainsFunc(l, (*Extender).IsPrioritizer) }

// Filter asks the extenders one after the other which of the nodes they accept, and records in the diagnosis
// which they reject.
//
// Upstream: pkg/scheduler findNodesThatPassExtenders, findNodesThatFitPod (v1.36).
func (l List) Filter(
	ctx context.Context, pod *corev1.Pod, nodes []*framework.NodeInfo, why *framework.Diagnosis,
) ([]*framework.NodeInfo, error) {
	feasible := nodes
	for _, e := range l {
		if len(feasible) == 0 {
			break
		}
		if !e.IsInterested(pod) {
			continue
		}
		accepted, failed, unresolvable, err := e.Filter(ctx, pod, feasible)
		if err != nil && e.IsIgnorable() {
			continue // the record has the error
		}
		if err != nil {
			return nil, err
		}
		for node, message := range failed {
			why.Reject(node, framework.NewStatus(framework.Unschedulable, message))
		}
		for node, message := range unresolvable {
			why.Reject(node, framework.NewStatus(framework.UnschedulableAndUnresolvable, message))
		}
		feasible = accepted
	}
	if len(feasible) != len(nodes) {
		why.AddPlugin(Name)
	}
	return feasible, nil
}

// Prioritize returns the sum of the extenders' scores for each node that has any. Extenders that fail give
// none.
//
// Upstream: pkg/scheduler prioritizeNodes (v1.36).
func (l List) Prioritize(ctx context.Context, pod *corev1.Pod, nodes []*framework.NodeInfo) map[string]int64 {
	var sums map[string]int64
	for _, e := range l {
		if !e.IsInterested(pod) {
			continue
		}
		scores, weight, err := e.Prioritize(ctx, pod, nodes)
		if err != nil {
			continue
		}
		for _, s := range scores {
			if sums == nil {
				sums = make(map[string]int64, len(nodes))
			}
			sums[s.Host] += s.Score * weight * (framework.MaxScore / extenderv1.MaxExtenderPriority)
		}
	}
	return sums
}

// Bind makes the first extender that binds, and is interested in the pod, assign it to a node. It reports
// whether there is one. An ignorable one that fails does not count.
//
// Upstream: pkg/scheduler extendersBinding (v1.36).
func (l List) Bind(ctx context.Context, pod *corev1.Pod, node string) (found bool, err error) {
	for _, e := range l {
		if !e.IsBinder() || !e.IsInterested(pod) {
			continue
		}
		err := e.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		})
		if err != nil && e.IsIgnorable() {
			continue
		}
		return true, err
	}
	return false, nil
}

// Preempt asks the extenders one after the other about the victims of preemption, by node. The result has
// the nodes that remain.
//
// Upstream: pkg/scheduler/framework/preemption Evaluator.callExtenders (v1.36).
func (l List) Preempt(
	ctx context.Context, pod *corev1.Pod, victims map[string]*extenderv1.Victims, on *framework.Snapshot,
) (map[string]*extenderv1.Victims, error) {
	for _, e := range l {
		if len(victims) == 0 {
			break
		}
		if !e.SupportsPreemption() || !e.IsInterested(pod) {
			continue
		}
		accepted, err := e.ProcessPreemption(ctx, pod, victims, on)
		if err != nil && e.IsIgnorable() {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, node := range slices.Sorted(maps.Keys(accepted)) {
			if len(accepted[node].Pods) > 0 {
				continue
			}
			if !e.IsIgnorable() {
				return nil, fmt.Errorf("expected at least one victim pod on node %q", node)
			}
			delete(accepted, node)
		}
		victims = accepted
	}
	return victims, nil
}
