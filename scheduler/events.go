package scheduler

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// The reasons of the events.
//
// Upstream: pkg/scheduler handleSchedulingFailure, bind (v1.36), to the letter.
const (
	reasonFailedScheduling = "FailedScheduling"
	reasonScheduled        = "Scheduled"
)

// truncate shortens a message to the limit of events.
//
// Upstream: pkg/scheduler truncateMessage, pkg/apis/core/validation NoteLengthLimit (v1.36).
func truncate(message string) string {
	const limit, end = 1024, " ..."
	if len(message) <= limit {
		return message
	}
	return message[:limit-len(end)] + end
}

func (c *Controller) reportBound(p *placement) {
	c.cfg.Recorder.Eventf(p.pod, corev1.EventTypeNormal, reasonScheduled,
		"Successfully assigned %v/%v to %v", p.pod.Namespace, p.pod.Name, p.node)
}

// fail puts a pod back into the queue that got no node, and says why. requeued, which may be nil, is
// called in between.
//
// Upstream: pkg/scheduler handleSchedulingFailure (v1.36).
func (c *Controller) fail(ctx context.Context, queued *queuedPod, v verdict, requeued func()) {
	reason, message, by := corev1.PodReasonSchedulerError, "", sets.Set[string](nil)
	switch {
	case v.err != nil:
		message = v.err.Error()
	case v.diagnosis.NodesMax == 0:
		reason, message, by = corev1.PodReasonUnschedulable, v.diagnosis.Error(), sets.New(noNodes)
	default:
		reason, message, by = corev1.PodReasonUnschedulable, v.diagnosis.Error(), v.diagnosis.Plugins
	}
	pod := queued.pod
	cached, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
	switch {
	case err == nil && cached.UID != pod.UID:
		c.queue.done(queued)
		return
	case err != nil || cached.Spec.NodeName != "":
		c.queue.done(queued)
	default:
		pod = cached
		c.queue.reject(queued, pod, by)
	}
	if requeued != nil {
		requeued()
	}
	switch {
	case v.nominated != "":
		c.nominated.set(pod, v.nominated)
	case v.clear:
		c.nominated.set(pod, "")
	}
	c.cfg.Recorder.Event(pod, corev1.EventTypeWarning, reasonFailedScheduling, truncate(message))
	// The pod is in the queue: a status that could not be written is written with the next attempt.
	_ = c.patchStatus(ctx, pod, reason, message, v)
}

// patchStatus updates the pod's condition and its nominated node if they differ.
//
// Upstream: pkg/scheduler updatePod (v1.36).
func (c *Controller) patchStatus(ctx context.Context, pod *corev1.Pod, reason, message string, v verdict) error {
	status := map[string]any{}
	if condition, changed := unscheduledCondition(pod, reason, message, metav1.NewTime(c.cfg.Process.Now())); changed {
		status["conditions"] = []corev1.PodCondition{condition}
	}
	switch nominated := pod.Status.NominatedNodeName; {
	case v.nominated != "" && v.nominated != nominated:
		status["nominatedNodeName"] = v.nominated
	case v.nominated == "" && v.clear && nominated != "":
		status["nominatedNodeName"] = nil
	}
	if len(status) == 0 {
		return nil
	}
	return c.writeStatus(ctx, pod, status)
}

// writeStatus patches the status of a pod.
//
// Upstream: pkg/scheduler/util PatchPodStatus (v1.36).
func (c *Controller) writeStatus(ctx context.Context, pod *corev1.Pod, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		panic("scheduler: encode status: " + err.Error())
	}
	_, err = c.cfg.Client.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
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
