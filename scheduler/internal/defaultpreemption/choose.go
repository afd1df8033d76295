package defaultpreemption

import (
	"cmp"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// choose returns the best candidate, of several the first: the fewest violations of disruption budgets, the lowest
// priority of its most important victim, the lowest sum of priorities, the fewest victims, and the
// latest start of the most important victims.
//
// Upstream: pkg/scheduler/framework/preemption pickOneNodeForPreemption (v1.36).
func choose(candidates []candidate, now time.Time) candidate {
	best := candidates[0]
	for _, c := range candidates[1:] {
		if compare(c, best, now) < 0 {
			best = c
		}
	}
	return best
}

func compare(a, b candidate, now time.Time) int {
	return cmp.Or(
		cmp.Compare(a.violations, b.violations),
		cmp.Compare(corev1helpers.PodPriority(a.victims[0]), corev1helpers.PodPriority(b.victims[0])),
		cmp.Compare(a.priorities(), b.priorities()),
		cmp.Compare(len(a.victims), len(b.victims)),
		b.started(now).Compare(a.started(now)),
	)
}

// priorities returns the sum of the priorities, each of them made positive: more victims of negative priority
// are not better.
func (c candidate) priorities() int64 {
	var sum int64
	for _, pod := range c.victims {
		sum += int64(corev1helpers.PodPriority(pod)) + math.MaxInt32 + 1
	}
	return sum
}

// started returns when the first of the victims with the highest priority started.
//
// Upstream: pkg/scheduler/util GetEarliestPodStartTime (v1.36).
func (c candidate) started(now time.Time) time.Time {
	highest, first := corev1helpers.PodPriority(c.victims[0]), startOf(c.victims[0], now)
	for _, pod := range c.victims[1:] {
		start := startOf(pod, now)
		switch priority := corev1helpers.PodPriority(pod); {
		case priority > highest:
			highest, first = priority, start
		case priority == highest && start.Before(first):
			first = start
		}
	}
	return first
}

// startOf returns when a pod started; now if it has not.
//
// Upstream: pkg/scheduler/util GetPodStartTime (v1.36).
func startOf(pod *corev1.Pod, now time.Time) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return now
}

// byImportance compares pods: the more important one, by priority and age, comes first.
//
// Upstream: pkg/scheduler/util MoreImportantPod (v1.36).
func byImportance(a, b *corev1.Pod, now time.Time) int {
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
		startOf(a, now).Compare(startOf(b, now)),
	)
}
