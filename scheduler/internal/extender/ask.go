package extender

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// args returns what is sent about a pod and nodes: names for an extender that knows nodes, otherwise the
// nodes themselves.
func (e *Extender) args(pod *corev1.Pod, nodes []*framework.NodeInfo) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{Pod: pod}
	if e.cfg.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Node.Name
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &corev1.NodeList{}
	for _, n := range nodes {
		args.Nodes.Items = append(args.Nodes.Items, *n.Node)
	}
	return args
}

// Filter returns those of the nodes that the extender accepts, and why it rejects others. It may reject a
// node without a reason. A rejected node is unresolvable if preemption does not help.
//
// Of a node that the extender returned as an object, the result has that object, and no pods. It need not
// be one of the nodes.
//
// Upstream: pkg/scheduler HTTPExtender.Filter (v1.36).
func (e *Extender) Filter(
	ctx context.Context, pod *corev1.Pod, nodes []*framework.NodeInfo,
) (accepted []*framework.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap, err error) {
	if !e.IsFilter() {
		return nodes, nil, nil, nil
	}
	var result extenderv1.ExtenderFilterResult
	err = e.send(ctx, request{
		verb: "ExtenderFilter", path: e.cfg.FilterVerb, pod: podName(pod), args: e.args(pod, nodes), result: &result,
		summary: func() string { return fmt.Sprintf("nodes=%d accepted=%d", len(nodes), acceptedBy(&result)) },
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if result.Error != "" {
		return nil, nil, nil, errors.New(result.Error)
	}
	switch {
	case e.cfg.NodeCacheCapable && result.NodeNames != nil:
		accepted, err = e.named(*result.NodeNames, nodes)
	case result.Nodes != nil:
		accepted = newNodes(result.Nodes.Items)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return accepted, result.FailedNodes, result.FailedAndUnresolvableNodes, nil
}

func acceptedBy(r *extenderv1.ExtenderFilterResult) int {
	switch {
	case r.NodeNames != nil:
		return len(*r.NodeNames)
	case r.Nodes != nil:
		return len(r.Nodes.Items)
	default:
		return 0
	}
}

// named returns those of the nodes that have the names.
func (e *Extender) named(names []string, nodes []*framework.NodeInfo) ([]*framework.NodeInfo, error) {
	byName := make(map[string]*framework.NodeInfo, len(nodes))
	for _, n := range nodes {
		byName[n.Node.Name] = n
	}
	found := make([]*framework.NodeInfo, len(names))
	for i, name := range names {
		if found[i] = byName[name]; found[i] == nil {
			return nil, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", e.cfg.URLPrefix, name)
		}
	}
	return found, nil
}

// newNodes returns nodes without pods.
func newNodes(items []corev1.Node) []*framework.NodeInfo {
	infos := make([]*framework.NodeInfo, len(items))
	for i := range items {
		infos[i] = framework.NewSnapshot([]*corev1.Node{&items[i]}, nil).Nodes()[0]
	}
	return infos
}

// Prioritize returns the extender's scores of nodes, from extenderv1.MinExtenderPriority to
// MaxExtenderPriority, and their weight.
//
// Upstream: pkg/scheduler HTTPExtender.Prioritize (v1.36).
func (e *Extender) Prioritize(
	ctx context.Context, pod *corev1.Pod, nodes []*framework.NodeInfo,
) (scores extenderv1.HostPriorityList, weight int64, err error) {
	if !e.IsPrioritizer() {
		return nil, 0, nil
	}
	err = e.send(ctx, request{
		verb: "ExtenderPrioritize", path: e.cfg.PrioritizeVerb, pod: podName(pod), args: e.args(pod, nodes), result: &scores,
		summary: func() string { return fmt.Sprintf("nodes=%d scores=%d", len(nodes), len(scores)) },
	})
	if err != nil {
		return nil, 0, err
	}
	return scores, e.cfg.Weight, nil
}

// Bind makes the extender assign a pod to a node.
//
// Upstream: pkg/scheduler HTTPExtender.Bind (v1.36).
func (e *Extender) Bind(ctx context.Context, binding *corev1.Binding) error {
	if !e.IsBinder() {
		return errors.New("unexpected empty bindVerb in extender")
	}
	var result extenderv1.ExtenderBindingResult
	err := e.send(ctx, request{
		verb: "ExtenderBind", path: e.cfg.BindVerb, pod: binding.Namespace + "/" + binding.Name, result: &result, changes: true,
		args: &extenderv1.ExtenderBindingArgs{
			PodName: binding.Name, PodNamespace: binding.Namespace, PodUID: binding.UID, Node: binding.Target.Name,
		},
		summary: func() string { return "node=" + binding.Target.Name },
	})
	if err != nil {
		return err
	}
	if result.Error != "" {
		return errors.New(result.Error)
	}
	return nil
}

// ProcessPreemption returns the victims, by node, that the extender accepts or replaces. They must be on
// their nodes.
//
// Upstream: pkg/scheduler HTTPExtender.ProcessPreemption (v1.36).
//
// Differs: a node or a victim that is null is an error. Upstream panics.
func (e *Extender) ProcessPreemption(
	ctx context.Context, pod *corev1.Pod, victims map[string]*extenderv1.Victims, on *framework.Snapshot,
) (map[string]*extenderv1.Victims, error) {
	if !e.SupportsPreemption() {
		return nil, fmt.Errorf("preempt verb is not defined for extender %v but run into ProcessPreemption", e.cfg.URLPrefix)
	}
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if e.cfg.NodeCacheCapable {
		args.NodeNameToMetaVictims = namesOf(victims)
	} else {
		args.NodeNameToVictims = victims
	}
	var result extenderv1.ExtenderPreemptionResult
	err := e.send(ctx, request{
		verb: "ExtenderPreempt", path: e.cfg.PreemptVerb, pod: podName(pod), args: args, result: &result,
		summary: func() string {
			return fmt.Sprintf("nodes=%d accepted=%d", len(victims), len(result.NodeNameToMetaVictims))
		},
	})
	if err != nil {
		return nil, err
	}
	return e.victimsOf(result.NodeNameToMetaVictims, on)
}

// namesOf returns victims by their UIDs.
//
// Upstream: pkg/scheduler convertToMetaVictims (v1.36).
func namesOf(victims map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
	named := make(map[string]*extenderv1.MetaVictims, len(victims))
	for node, v := range victims {
		meta := &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{}, NumPDBViolations: v.NumPDBViolations}
		for _, pod := range v.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
		named[node] = meta
	}
	return named
}

// victimsOf returns the pods that an extender names by their UIDs.
//
// Upstream: pkg/scheduler HTTPExtender.convertToVictims (v1.36).
func (e *Extender) victimsOf(
	named map[string]*extenderv1.MetaVictims, on *framework.Snapshot,
) (map[string]*extenderv1.Victims, error) {
	all := make(map[string]*extenderv1.Victims, len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		node := on.Node(name)
		if node == nil {
			return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
		}
		meta := named[name]
		if meta == nil {
			return nil, fmt.Errorf("extender: %v claims null victims on node: %v", e.cfg.URLPrefix, name)
		}
		victims := &extenderv1.Victims{Pods: []*corev1.Pod{}, NumPDBViolations: meta.NumPDBViolations}
		for _, victim := range meta.Pods {
			pod, err := e.victimOf(victim, node)
			if err != nil {
				return nil, err
			}
			victims.Pods = append(victims.Pods, pod)
		}
		all[name] = victims
	}
	return all, nil
}

func (e *Extender) victimOf(victim *extenderv1.MetaPod, node *framework.NodeInfo) (*corev1.Pod, error) {
	if victim != nil {
		for _, p := range node.Pods {
			if string(p.Pod.UID) == victim.UID {
				return p.Pod, nil
			}
		}
	}
	return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found on that node",
		e.cfg.URLPrefix, victim, node.Node.Name)
}
