package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// end decides how the job ends, if it does. What an earlier sync decided stays decided. Failure precedes
// success.
//
// Upstream: pkg/controller/job Controller.syncJob (v1.36).
func (s *state) end() {
	for _, decide := range []func() *batchv1.JobCondition{
		s.endedBefore, s.failedByPolicy, s.overLimit, s.overLimitOfIndexes, s.succeededByPolicy,
	} {
		if s.finished = decide(); s.finished != nil {
			return
		}
	}
}

func (s *state) endedBefore() *batchv1.JobCondition {
	if met := condition(s.job, batchv1.JobSuccessCriteriaMet); met != nil {
		return met
	}
	if target := condition(s.job, batchv1.JobFailureTarget); target != nil {
		return newCondition(batchv1.JobFailed, target.Reason, target.Message, s.now)
	}
	return nil
}

func (s *state) fails(reason, message string) *batchv1.JobCondition {
	return newCondition(batchv1.JobFailureTarget, reason, message, s.now)
}

// failedByPolicy returns how the job ends if a rule of its failure policy says so.
func (s *state) failedByPolicy() *batchv1.JobCondition {
	if s.job.Spec.PodFailurePolicy == nil {
		return nil
	}
	for _, pod := range s.pods {
		if !s.hasFailed(pod) {
			continue
		}
		if m := s.match(pod); m.failure != "" {
			return s.fails(batchv1.JobReasonPodFailurePolicy, m.failure)
		}
	}
	return nil
}

// overLimit returns how the job ends if it had too many failures, or took too long.
func (s *state) overLimit() *batchv1.JobCondition {
	switch {
	case s.failed > *s.job.Spec.BackoffLimit || s.restartedTooOften():
		return s.fails(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	case s.hasDeadline() && s.remaining() <= 0:
		return s.fails(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	return nil
}

// restartedTooOften reports whether the containers of pods with policy OnFailure were restarted too
// often.
//
// Upstream: pkg/controller/job pastBackoffLimitOnFailure (v1.36).
func (s *state) restartedTooOften() bool {
	if s.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	restarts := int32(0)
	for _, pod := range s.pods {
		if pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending {
			for _, c := range pod.Status.InitContainerStatuses {
				restarts += c.RestartCount
			}
			for _, c := range pod.Status.ContainerStatuses {
				restarts += c.RestartCount
			}
		}
	}
	return restarts >= max(1, *s.job.Spec.BackoffLimit)
}

func (s *state) hasDeadline() bool {
	return s.job.Spec.ActiveDeadlineSeconds != nil && s.job.Status.StartTime != nil && !isSuspended(s.job)
}

func (s *state) remaining() time.Duration {
	return time.Duration(*s.job.Spec.ActiveDeadlineSeconds)*time.Second - s.now.Sub(s.job.Status.StartTime.Time)
}

// deadline returns when the job must be synced because it took too long; 0 if it need not.
func (s *state) deadline() time.Duration {
	if s.finished != nil || !s.hasDeadline() {
		return 0
	}
	return s.remaining()
}

// overLimitOfIndexes returns how the job ends if too many indexes have failed, or none is left.
func (s *state) overLimitOfIndexes() *batchv1.JobCondition {
	failed := s.failedIndexes.total()
	if !s.hasLimitPerIndex() || failed == 0 {
		return nil
	}
	if limit := s.job.Spec.MaxFailedIndexes; limit != nil && failed > int(*limit) {
		return s.fails(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	}
	if failed+s.succeededIndexes.total() >= int(*s.job.Spec.Completions) {
		return s.fails(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	return nil
}

// complete reports whether enough pods have succeeded, and none is active any more.
func (s *state) complete() bool {
	if wanted := s.job.Spec.Completions; wanted != nil {
		return s.succeeded >= *wanted && s.activeAfterwards == 0
	}
	return s.succeeded > 0 && s.activeAfterwards == 0
}
