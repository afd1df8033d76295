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

// report says why a pod is on no node: as an event, and in the pod's condition if that says something else.
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
		panic("scheduler: condition patch: " + err.Error())
	}
	_, err = c.cfg.Client.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// unscheduledCondition is the condition of a pod that is on no node, and whether the pod's own differs.
func unscheduledCondition(pod *corev1.Pod, reason, message string, now metav1.Time) (condition corev1.PodCondition, changed bool) {
	condition = corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, ObservedGeneration: pod.Generation,
		Reason: reason, Message: message, LastTransitionTime: now,
	}
	for _, was := range pod.Status.Conditions {
		if was.Type != condition.Type {
			continue
		}
		if was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
		same := was.Status == condition.Status && was.Reason == reason && was.Message == message &&
			was.ObservedGeneration == condition.ObservedGeneration
		return condition, !same
	}
	return condition, true
}
