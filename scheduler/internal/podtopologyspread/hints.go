package podtopologyspread

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Events returns the changes of pods and nodes that make a difference.
//
// Differs: so does the readiness of a node.
func (p *Plugin) Events() []framework.EventHint {
	const ofPod = framework.Add | framework.UpdatePodLabel | framework.UpdatePodToleration | framework.Delete
	const ofNode = framework.Add | framework.Delete | framework.UpdateNodeLabel | framework.UpdateNodeTaint |
		framework.UpdateNodeCondition
	return []framework.EventHint{
		{Resource: framework.Pod, Action: ofPod, Hint: p.isPodRelevant},
		{Resource: framework.Node, Action: ofNode, Hint: p.isNodeRelevant},
	}
}

// concerns reports whether a pod may count for another one, or is the same.
func concerns(changed, pod *corev1.Pod) bool {
	return changed == nil || changed.UID == pod.UID ||
		(changed.Spec.NodeName != "" || changed.Status.NominatedNodeName != "") && changed.Namespace == pod.Namespace
}

// isPodRelevant reports whether the change of a pod changes the number of pods in a domain, or which nodes count.
func (p *Plugin) isPodRelevant(pod *corev1.Pod, old, new any) bool {
	was, _ := old.(*corev1.Pod)
	is, _ := new.(*corev1.Pod)
	if was == nil && is == nil || !concerns(was, pod) || !concerns(is, pod) {
		return false
	}
	constraints, err := p.hardConstraints(pod)
	if err != nil {
		return true
	}
	selects := func(c *constraint, p *corev1.Pod) bool { return p != nil && c.selector.Matches(labels.Set(p.Labels)) }
	if was != nil && is != nil {
		tolerates := is.UID == pod.UID && !equality.Semantic.DeepEqual(is.Spec.Tolerations, was.Spec.Tolerations)
		if tolerates && slices.ContainsFunc(constraints, func(c constraint) bool { return c.byTaints }) {
			return true
		}
	}
	return slices.ContainsFunc(constraints, func(c constraint) bool { return selects(&c, was) != selects(&c, is) })
}

// isNodeRelevant reports whether the change of a node changes the domains.
func (p *Plugin) isNodeRelevant(pod *corev1.Pod, old, new any) bool {
	was, _ := old.(*corev1.Node)
	is, _ := new.(*corev1.Node)
	constraints, err := p.hardConstraints(pod)
	if err != nil {
		return true
	}
	before, now := was != nil && hasKeys(was, constraints), is != nil && hasKeys(is, constraints)
	if was == nil || is == nil || before != now {
		return before || now
	}
	return now && (movesDomain(was, is, constraints) || changesTaints(pod, was, is))
}

func movesDomain(was, is *corev1.Node, constraints []constraint) bool {
	return slices.ContainsFunc(constraints, func(c constraint) bool { return was.Labels[c.key] != is.Labels[c.key] })
}

func changesTaints(pod *corev1.Pod, was, is *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints) ||
		(framework.UntoleratedTaint(pod, was) == nil) != (framework.UntoleratedTaint(pod, is) == nil)
}
