package job

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The delay of a pod after a failure doubles with each.
//
// Upstream: pkg/controller/job DefaultJobPodFailureBackOff, MaxJobPodFailureBackOff (v1.36).
const (
	podBackoffMin = 10 * time.Second
	podBackoffMax = 10 * time.Minute
	podDelayMin   = time.Second
)

// A backoff counts the failures of a job's pods since one succeeded.
//
// Upstream: pkg/controller/job backoffRecord (v1.36).
type backoff struct {
	failures int
	last     time.Time // when the last pod failed
}

// after returns the back-off after further pods have ended.
//
// Upstream: pkg/controller/job backoffStore.newBackoffRecord (v1.36).
func (b backoff) after(succeeded, failed []*corev1.Pod) backoff {
	var success time.Time
	for _, pod := range succeeded {
		if at := endOf(pod); at.After(success) {
			success = at
		}
	}
	if len(succeeded) > 0 {
		b = backoff{}
	} else if len(failed) > 0 {
		b.last = time.Time{}
	}
	for _, pod := range failed {
		at := endOf(pod)
		if len(succeeded) > 0 && !at.After(success) {
			continue
		}
		b.failures++
		if at.After(b.last) {
			b.last = at
		}
	}
	return b
}

// remaining returns how long the next pod must wait; 0 if it need not.
//
// Upstream: pkg/controller/job getRemainingTimeForFailuresCount (v1.36).
func (b backoff) remaining(now time.Time) time.Duration {
	if b.failures == 0 {
		return 0
	}
	delay := podBackoffMin
	for i := 1; i < b.failures && delay < podBackoffMax; i++ {
		delay *= 2
	}
	return max(0, min(delay, podBackoffMax)-now.Sub(b.last))
}

// endOf returns when a pod ended: its last container, else when it became unready, was deleted or
// created.
//
// Upstream: pkg/controller/job getFinishedTime (v1.36).
func endOf(pod *corev1.Pod) time.Time {
	if at, ok := endOfContainers(pod); ok {
		return at
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if pod.DeletionTimestamp != nil {
		return pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
	}
	return pod.CreationTimestamp.Time
}

// endOfContainers returns when the last container ended. Of the init containers only sidecars matter. The
// bool is false if one of them runs, or there is none.
func endOfContainers(pod *corev1.Pod) (end time.Time, known bool) {
	isSidecar := func(status corev1.ContainerStatus) bool {
		return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == status.Name && ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
		})
	}
	statuses := slices.Clone(pod.Status.ContainerStatuses)
	for _, status := range pod.Status.InitContainerStatuses {
		if isSidecar(status) {
			statuses = append(statuses, status)
		}
	}
	for _, status := range statuses {
		ended := status.State.Terminated
		if ended == nil || ended.FinishedAt.IsZero() {
			return time.Time{}, false
		}
		if ended.FinishedAt.After(end) {
			end = ended.FinishedAt.Time
		}
	}
	return end, len(statuses) > 0
}
