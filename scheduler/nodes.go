package scheduler

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// nodeUnfit returns the reason why a pod cannot run on a node, ignoring volumes, or "".
//
// Upstream: plugins/{nodeunschedulable,tainttoleration,nodeaffinity} Filter (v1.36).
//
// Differs: a node that is not ready is treated as tainted, even without a taint. A node that has
// never reported readiness is not ready.
func nodeUnfit(pod *corev1.Pod, node *corev1.Node) string {
	unschedulable := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if node.Spec.Unschedulable && !isTolerated(pod, unschedulable) {
		return reasonUnschedulable
	}
	taints := slices.Clone(node.Spec.Taints)
	switch readiness(node) {
	case corev1.ConditionTrue:
	case corev1.ConditionUnknown:
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule})
	default:
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, taint := range taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !isTolerated(pod, taint) {
			return reasonTaint
		}
	}
	if match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !match {
		return reasonAffinity
	}
	return ""
}

func isTolerated(pod *corev1.Pod, taint corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, &taint, false)
}

// readiness returns the status of a node's condition Ready, or "".
func readiness(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}
