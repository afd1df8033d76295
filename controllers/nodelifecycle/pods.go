package nodelifecycle

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// markPods sets the condition Ready of a node's pods to False.
//
// Upstream: pkg/controller/util/node MarkPodsNotReady (v1.36).
func (c *controller) markPods(ctx context.Context, node string) error {
	var errs []error
	for _, pod := range c.podsOf(node) {
		errs = append(errs, c.markPod(ctx, pod))
	}
	return errors.Join(errs...)
}

// markPod sets the condition Ready of a pod to False, if it has the condition.
//
// Differs: upstream records the event also if the write failed.
func (c *controller) markPod(ctx context.Context, pod *corev1.Pod) error {
	marked := pod.DeepCopy()
	ready := podReady(marked)
	if ready == nil || ready.Status == corev1.ConditionFalse {
		return nil
	}
	ready.Status, ready.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(c.process.Now())
	_, err := c.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, marked, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	c.recorder.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	return nil
}

// syncPod marks a pod that was bound to a node that is not ready.
//
// Upstream: pkg/controller/nodelifecycle processPod (v1.36).
func (c *controller) syncPod(ctx context.Context, key string) error {
	obj, exists, err := c.podStore.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod := obj.(*corev1.Pod)
	h := c.nodes[pod.Spec.NodeName]
	if h == nil || h.ready == "" || h.ready == corev1.ConditionTrue {
		return nil
	}
	return c.markPod(ctx, pod)
}

// podReady returns the condition Ready of a pod, or nil.
func podReady(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
