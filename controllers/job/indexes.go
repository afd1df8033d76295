package job

import (
	"math"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/workload"
)

// noIndex is the index of a pod without one.
const noIndex = -1

// indexOf returns the completion index of a pod.
func indexOf(pod *corev1.Pod) int {
	i, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || i < 0 {
		return noIndex
	}
	return i
}

// failuresOf returns how many pods of its index failed before a pod: those that count towards the limit,
// and all.
func failuresOf(pod *corev1.Pod) (counted, all int32) {
	number := func(annotation string) int32 {
		n, err := strconv.Atoi(pod.Annotations[annotation])
		if err != nil || n < 0 || n > math.MaxInt32 {
			return 0
		}
		return int32(n)
	}
	counted = number(batchv1.JobIndexFailureCountAnnotation)
	return counted, counted + number(batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// observeIndexes finds the indexes that succeeded and failed, with those of pods that are not counted yet.
//
// Upstream: pkg/controller/job calculateSucceededIndexes, calculateFailedIndexes (v1.36).
func (s *state) observeIndexes() {
	status, completions := &s.job.Status, int(*s.job.Spec.Completions)
	var succeeded, failed []int
	for _, pod := range s.pods {
		if !isTracked(pod) || !s.hasIndex(pod) {
			continue
		}
		if pod.Status.Phase == corev1.PodSucceeded {
			succeeded = append(succeeded, indexOf(pod))
		}
		if s.hasLimitPerIndex() && s.failsIndex(pod) {
			failed = append(failed, indexOf(pod))
		}
	}
	s.counted = parseIntervals(status.CompletedIndexes, completions)
	s.succeededIndexes = s.counted.with(succeeded)
	s.succeeded = int32(s.succeededIndexes.total())
	if !s.hasLimitPerIndex() {
		return
	}
	if status.FailedIndexes != nil {
		s.failedIndexes = parseIntervals(*status.FailedIndexes, completions)
	}
	s.failedIndexes = s.failedIndexes.with(failed)
	s.findReplaced()
}

// failsIndex reports whether the index of a pod has failed with it.
func (s *state) failsIndex(pod *corev1.Pod) bool {
	if !s.hasFailed(pod) {
		return false
	}
	m := s.match(pod)
	counted, _ := failuresOf(pod)
	return m.failsIndex || m.counts && counted >= *s.job.Spec.BackoffLimitPerIndex
}

// findReplaced finds the last failed pod of each index that needs another pod. It keeps its finalizer
// until its successor has its number of failures.
//
// Upstream: pkg/controller/job getPodsWithDelayedDeletionPerIndex (v1.36).
func (s *state) findReplaced() {
	s.replaced = map[int]*corev1.Pod{}
	active := indexesOf(s.active)
	for _, pod := range s.pods {
		i := indexOf(pod)
		if !s.isNew(pod) || !s.hasFailed(pod) || s.succeededIndexes.has(i) || s.failedIndexes.has(i) || slices.Contains(active, i) {
			continue
		}
		last, known := s.replaced[i]
		if known {
			_, before := failuresOf(last)
			if _, failures := failuresOf(pod); failures < before || endOf(pod).Before(endOf(last)) {
				continue
			}
		}
		s.replaced[i] = pod
	}
}

// indexesOf returns the indexes of pods, in order and each once.
func indexesOf(pods []*corev1.Pod) []int {
	var indexes []int
	for _, pod := range pods {
		if i := indexOf(pod); i != noIndex {
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	return slices.Compact(indexes)
}

// pending returns the first indexes that have no pod and need one, at most so many.
//
// Upstream: pkg/controller/job firstPendingIndexes (v1.36).
func (s *state) pending(most int) []int {
	taken := s.succeededIndexes.with(indexesOf(s.active)).merge(s.failedIndexes)
	if s.replacesFailedOnly() {
		var terminating []*corev1.Pod
		for _, pod := range s.pods {
			if workload.IsTerminating(pod) && !workload.HasEnded(pod) {
				terminating = append(terminating, pod)
			}
		}
		taken = taken.with(indexesOf(terminating))
	}
	return taken.missing(most, int(*s.job.Spec.Completions))
}

// due returns the indexes whose back-off is over or, if there are none, how long the first must wait.
//
// Upstream: pkg/controller/job getPodCreationInfoForIndependentIndexes (v1.36).
func (s *state) due(indexes []int) (now []int, wait time.Duration) {
	for _, i := range indexes {
		left := time.Duration(0)
		if last := s.replaced[i]; last != nil {
			_, failures := failuresOf(last)
			left = backoff{failures: int(failures) + 1, last: endOf(last)}.remaining(s.now)
		}
		switch {
		case left == 0:
			now = append(now, i)
		case wait == 0 || left < wait:
			wait = left
		}
	}
	if len(now) > 0 {
		return now, 0
	}
	return nil, wait
}
