package framework

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
)

// UntoleratedTaint returns the first taint because of which a node does not run a pod, nil if there is none.
//
// Upstream: k8s.io/component-helpers/scheduling/corev1 FindMatchingUntoleratedTaint, of taints with the
// effects NoSchedule and NoExecute (v1.36).
//
// Differs: a node that is not ready counts as tainted, even before a controller adds the taint. A node that
// has never reported readiness is not ready.
func UntoleratedTaint(pod *corev1.Pod, node *corev1.Node) *corev1.Taint {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		repels := taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
		if repels && !Tolerates(pod, taint) {
			return taint
		}
	}
	if taint := taintOf(readiness(node)); taint != nil && !Tolerates(pod, taint) {
		return taint
	}
	return nil
}

// Tolerates reports whether a pod tolerates a taint.
func Tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, taint, false)
}

// The taints of nodes that are not ready. They must not be changed.
var (
	unreachable = &corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}
	notReady    = &corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
)

func taintOf(ready corev1.ConditionStatus) *corev1.Taint {
	switch ready {
	case corev1.ConditionTrue:
		return nil
	case corev1.ConditionUnknown:
		return unreachable
	default:
		return notReady
	}
}

// readiness returns the status of a node's condition Ready, "" if there is none.
func readiness(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return ""
}
