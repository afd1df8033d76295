package scheduler

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The reasons of the events.
//
// Upstream: pkg/scheduler handleSchedulingFailure, bind (v1.36), to the letter.
const (
	reasonFailedScheduling = "FailedScheduling"
	reasonScheduled        = "Scheduled"
)

func (c *Controller) reportBound(p *placement) {
	c.cfg.Recorder.Eventf(p.pod, corev1.EventTypeNormal, reasonScheduled,
		"Successfully assigned %v/%v to %v", p.pod.Namespace, p.pod.Name, p.node)
}

// report records an event about a pod without a node, and updates the pod's condition if it
// differs.
//
// Upstream: pkg/scheduler handleSchedulingFailure, updatePod (v1.36).
func (c *Controller) report(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	c.cfg.Recorder.Event(pod, corev1.EventTypeWarning, reasonFailedScheduling, message)
	condition, changed := unscheduledCondition(pod, reason, message, metav1.NewTime(c.cfg.Process.Now()))
	if !changed {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"status": map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	if err != nil {
		panic("scheduler: encode condition: " + err.Error())
	}
	_, err = c.cfg.Client.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// unscheduledCondition returns the condition of a pod without a node, and whether it differs from
// the pod's current one.
func unscheduledCondition(
	pod *corev1.Pod, reason, message string, now metav1.Time,
) (condition corev1.PodCondition, changed bool) {
	condition = corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, ObservedGeneration: pod.Generation,
		Reason: reason, Message: message, LastTransitionTime: now,
	}
	for _, existing := range pod.Status.Conditions {
		if existing.Type != condition.Type {
			continue
		}
		if existing.Status == condition.Status {
			condition.LastTransitionTime = existing.LastTransitionTime
		}
		same := existing.Status == condition.Status && existing.Reason == reason && existing.Message == message &&
			existing.ObservedGeneration == condition.ObservedGeneration
		return condition, !same
	}
	return condition, true
}
