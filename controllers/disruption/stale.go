package disruption

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// target returns the index of a pod's condition DisruptionTarget; -1 if it has none.
func target(pod *corev1.Pod) int {
	return slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
}

// MayBeStale reports whether a pod is marked as the target of a disruption, but is not being deleted.
// Kubelets take as long as they need.
//
// Upstream: pkg/controller/disruption nonTerminatingPodHasStaleDisruptionCondition.
func MayBeStale(pod *corev1.Pod) bool {
	i := target(pod)
	return i >= 0 && pod.DeletionTimestamp == nil && pod.Status.Conditions[i].Status == corev1.ConditionTrue &&
		pod.Status.Conditions[i].Reason != corev1.PodReasonTerminationByKubelet &&
		pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// untilStale returns how long the mark of a pod is not stale yet.
func (c *controller) untilStale(pod *corev1.Pod) time.Duration {
	marked := pod.Status.Conditions[target(pod)].LastTransitionTime
	return max(0, marked.Add(staleTimeout).Sub(c.cfg.Process.Now()))
}

// syncStale resets a stale mark of a pod.
//
// Upstream: pkg/controller/disruption DisruptionController.syncStalePodDisruption.
func (c *controller) syncStale(ctx context.Context, key types.NamespacedName) error {
	pod, err := c.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || !MayBeStale(pod) {
		return nil // a lister fails with NotFound only
	}
	if wait := c.untilStale(pod); wait > 0 {
		c.stale.AddAfter(key, wait)
		return nil
	}
	changed := pod.DeepCopy()
	changed.Status.Conditions[target(pod)] = corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse,
		LastTransitionTime: metav1.Time{Time: time.Unix(c.cfg.Process.Now().Unix(), 0).UTC()},
	}
	_, err = c.cfg.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}
