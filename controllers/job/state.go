package job

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/workload"
)

// A state is what a sync knows of a job. The job is a copy whose status becomes the one to be written.
type state struct {
	job      *batchv1.Job
	pods     []*corev1.Pod          // by index, then by name
	removing map[types.UID]struct{} // pods whose finalizers are removed, although the cache has them
	now      time.Time

	active                    []*corev1.Pod
	ready, terminating        int32
	succeeded, failed         int32 // pods, with those that are not counted yet; succeeded indexes of an indexed job
	backoff                   backoff
	counted, succeededIndexes intervals // of the status, and with the pods
	failedIndexes             intervals
	replaced                  map[int]*corev1.Pod   // the last failed pod of each index that needs a new one
	finished                  *batchv1.JobCondition // how the job ends; nil: it does not
	changed                   bool                  // the status must be written
	uncountedSucceeded        map[types.UID]struct{}
	uncountedFailed           map[types.UID]struct{}
	activeAfterwards          int32 // number of active pods; see controller.act
}

func newState(job *batchv1.Job, pods []*corev1.Pod, removing map[types.UID]struct{}, now time.Time) *state {
	s := &state{job: job.DeepCopy(), pods: slices.Clone(pods), removing: removing, now: now}
	if s.job.Status.UncountedTerminatedPods == nil {
		s.job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	if s.isIndexed() {
		slices.SortStableFunc(s.pods, func(a, b *corev1.Pod) int { return cmp.Compare(indexOf(a), indexOf(b)) })
	}
	s.uncountedSucceeded = setOf(s.job.Status.UncountedTerminatedPods.Succeeded)
	s.uncountedFailed = setOf(s.job.Status.UncountedTerminatedPods.Failed)
	return s
}

func setOf(uids []types.UID) map[types.UID]struct{} {
	set := make(map[types.UID]struct{}, len(uids))
	for _, uid := range uids {
		set[uid] = struct{}{}
	}
	return set
}

func has(set map[types.UID]struct{}, pod *corev1.Pod) bool {
	_, ok := set[pod.UID]
	return ok
}

func (s *state) isIndexed() bool {
	return ptr.Deref(s.job.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

func (s *state) hasLimitPerIndex() bool { return s.job.Spec.BackoffLimitPerIndex != nil }

// replacesFailedOnly reports whether a pod that is being deleted is replaced only when it has ended.
//
// Upstream: pkg/controller/job onlyReplaceFailedPods (v1.36).
func (s *state) replacesFailedOnly() bool {
	spec := &s.job.Spec
	return ptr.Deref(spec.PodReplacementPolicy, "") == batchv1.Failed || spec.PodFailurePolicy != nil
}

func isSuspended(job *batchv1.Job) bool { return ptr.Deref(job.Spec.Suspend, false) }

// hasFailed reports whether a pod counts as failed.
//
// Upstream: pkg/controller/job isPodFailed (v1.36).
func (s *state) hasFailed(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return !s.replacesFailedOnly() && workload.IsTerminating(pod) && pod.Status.Phase != corev1.PodSucceeded
}

// isNew reports whether a pod is not counted yet: it has its finalizer, and an index if it needs one.
func (s *state) isNew(pod *corev1.Pod) bool {
	return isTracked(pod) && !has(s.removing, pod) && (!s.isIndexed() || s.hasIndex(pod))
}

// hasIndex reports whether a pod has an index that the job has.
func (s *state) hasIndex(pod *corev1.Pod) bool {
	i := indexOf(pod)
	return i >= 0 && i < int(*s.job.Spec.Completions)
}

// observe counts the pods. before is the back-off of the last sync.
//
// Upstream: pkg/controller/job Controller.syncJob, getNewFinishedPods, nonIgnoredFailedPodsCount (v1.36).
func (s *state) observe(before backoff) {
	var succeeded, failed []*corev1.Pod
	counted := int32(0)
	for _, pod := range s.pods {
		if workload.IsActive(pod) {
			s.active = append(s.active, pod)
			if workload.Ready(pod) != nil {
				s.ready++
			}
		} else if !workload.HasEnded(pod) {
			s.terminating++
		}
		if !s.isNew(pod) {
			continue
		}
		if pod.Status.Phase == corev1.PodSucceeded && !has(s.uncountedSucceeded, pod) {
			succeeded = append(succeeded, pod)
		}
		if s.hasFailed(pod) && !has(s.uncountedFailed, pod) {
			failed = append(failed, pod)
			if s.match(pod).counts {
				counted++
			}
		}
	}
	status := &s.job.Status
	s.activeAfterwards = int32(len(s.active))
	s.succeeded = status.Succeeded + int32(len(succeeded)+len(s.uncountedSucceeded))
	s.failed = status.Failed + counted + int32(len(s.uncountedFailed))
	s.backoff = before.after(succeeded, failed)
	if status.StartTime == nil && !isSuspended(s.job) {
		status.StartTime = ptr.To(metav1.NewTime(s.now))
	}
	if s.isIndexed() {
		s.observeIndexes()
	}
}

// setCondition sets a condition, and reports whether it has changed. A condition that does not exist does
// not become False.
//
// Upstream: pkg/controller/job ensureJobConditionStatus (v1.36).
func (s *state) setCondition(of batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string) bool {
	next := newCondition(of, reason, message, s.now)
	next.Status = status
	conditions := s.job.Status.Conditions
	i := slices.IndexFunc(conditions, func(c batchv1.JobCondition) bool { return c.Type == of })
	switch {
	case i < 0 && status == corev1.ConditionFalse:
		return false
	case i < 0:
		s.job.Status.Conditions = append(conditions, *next)
		return true
	}
	c := &conditions[i]
	if c.Status == status && c.Reason == reason && c.Message == message {
		return false
	}
	*c = *next
	return true
}

// newCondition returns a condition that is True.
func newCondition(of batchv1.JobConditionType, reason, message string, now time.Time) *batchv1.JobCondition {
	return &batchv1.JobCondition{
		Type: of, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
}

// condition returns a condition that is True; nil if it is not.
func condition(job *batchv1.Job, of batchv1.JobConditionType) *batchv1.JobCondition {
	i := slices.IndexFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == of && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	return &job.Status.Conditions[i]
}

// isFinished reports whether a job has ended, and its pods are counted.
func isFinished(job *batchv1.Job) bool {
	return condition(job, batchv1.JobComplete) != nil || condition(job, batchv1.JobFailed) != nil
}
