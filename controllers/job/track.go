package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/workload"
)

// uncountedMax is the number of pods that one sync counts.
//
// Upstream: pkg/controller/job MaxUncountedPods (v1.36).
const uncountedMax = 500

// track counts the pods that have ended:
//
//  1. Their UIDs and the numbers of other pods are written to the status, with how the job ends.
//  2. Their finalizers are removed.
//  3. The status is written without their UIDs and with their number and, if all pods of a job that ends
//     are counted, with its end.
//
// After a crash between two of them the next sync continues.
//
// Upstream: pkg/controller/job Controller.trackJobStatusAndRemoveFinalizers,
// flushUncountedAndRemoveFinalizers, enactJobFinished (v1.36).
func (c *controller) track(ctx context.Context, s *state) error {
	s.writeNumbers()
	tracked := s.tracked()
	if count(&s.job.Status, tracked) {
		s.changed = true
	}
	ended, more := s.writeEnded()
	s.writeConditions()
	if s.changed {
		if err := c.updateStatus(ctx, s); err != nil {
			return fmt.Errorf("tracking status: adding uncounted pods to status: %w", err)
		}
		c.failures[workload.Key(s.job)] = s.backoff
	}
	removeErr := c.removeFinalizers(ctx, s.job, ended, tracked)
	changed := count(&s.job.Status, tracked)
	if removeErr == nil && !more && s.isOver() {
		s.finish()
		changed = true
	} else {
		s.finished = nil
	}
	if changed {
		if err := c.updateStatus(ctx, s); err != nil {
			return errors.Join(removeErr, fmt.Errorf("tracking status: removing uncounted pods from status: %w", err))
		}
		if s.finished != nil {
			c.reportEnd(s)
			c.ended[s.job.UID] = struct{}{}
		}
	}
	if removeErr != nil {
		return fmt.Errorf("tracking status: %w", removeErr)
	}
	return nil
}

// writeNumbers writes the numbers of pods that have not ended to the status.
func (s *state) writeNumbers() {
	status := &s.job.Status
	if s.activeAfterwards != status.Active || !ptr.Equal(status.Ready, &s.ready) ||
		!ptr.Equal(status.Terminating, &s.terminating) {
		s.changed = true
	}
	status.Active, status.Ready, status.Terminating = s.activeAfterwards, &s.ready, &s.terminating
}

// tracked returns the pods that have their finalizers.
func (s *state) tracked() map[types.UID]struct{} {
	tracked := map[types.UID]struct{}{}
	for _, pod := range s.pods {
		if isTracked(pod) && !has(s.removing, pod) {
			tracked[pod.UID] = struct{}{}
		}
	}
	return tracked
}

// count counts the uncounted pods that have no finalizer any more, and reports whether there were any.
//
// Upstream: pkg/controller/job cleanUncountedPodsWithoutFinalizers (v1.36).
func count(status *batchv1.JobStatus, tracked map[types.UID]struct{}) bool {
	counted := func(uids []types.UID) ([]types.UID, int32) {
		var left []types.UID
		for _, uid := range uids {
			if _, ok := tracked[uid]; ok {
				left = append(left, uid)
			}
		}
		return left, int32(len(uids) - len(left))
	}
	uncounted := status.UncountedTerminatedPods
	var succeeded, failed int32
	uncounted.Succeeded, succeeded = counted(uncounted.Succeeded)
	uncounted.Failed, failed = counted(uncounted.Failed)
	status.Succeeded += succeeded
	status.Failed += failed
	return succeeded+failed > 0
}

// writeEnded writes the pods that have ended to the status, and returns them. The bool reports whether
// there are more than one sync may count.
func (s *state) writeEnded() (ended []*corev1.Pod, more bool) {
	status := &s.job.Status
	uncounted := status.UncountedTerminatedPods
	var succeeded []int
	for _, pod := range s.pods {
		if !isTracked(pod) || has(s.removing, pod) || !s.mayForget(pod) {
			continue
		}
		ended = append(ended, pod)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded && !has(s.uncountedFailed, pod):
			succeeded = s.writeSucceeded(pod, succeeded)
		case s.isNewFailure(pod):
			uncounted.Failed, s.changed = append(uncounted.Failed, pod.UID), true
		}
		if len(succeeded)+len(uncounted.Succeeded)+len(uncounted.Failed) >= uncountedMax {
			more = true
			break
		}
	}
	if s.isIndexed() {
		s.writeIndexes(succeeded)
	}
	return ended, more
}

// writeSucceeded writes a pod that has succeeded to the status or, if the job is indexed, adds its index to
// those that have succeeded.
func (s *state) writeSucceeded(pod *corev1.Pod, indexes []int) []int {
	uncounted := s.job.Status.UncountedTerminatedPods
	switch {
	case s.isIndexed():
		if i := indexOf(pod); s.hasIndex(pod) && !s.counted.has(i) {
			indexes, s.changed = append(indexes, i), true
		}
	case !has(s.uncountedSucceeded, pod):
		uncounted.Succeeded, s.changed = append(uncounted.Succeeded, pod.UID), true
	}
	return indexes
}

// isNewFailure reports whether a pod that has not succeeded counts as failed, and is not in the status yet.
// A job that fails counts every such pod.
func (s *state) isNewFailure(pod *corev1.Pod) bool {
	fails := s.hasFailed(pod) || s.finished != nil && s.finished.Type != batchv1.JobSuccessCriteriaMet
	return fails && !has(s.uncountedFailed, pod) && (!s.isIndexed() || s.hasIndex(pod)) && s.match(pod).counts
}

func (s *state) writeIndexes(succeeded []int) {
	status := &s.job.Status
	slices.Sort(succeeded)
	s.succeededIndexes = s.succeededIndexes.with(succeeded)
	completed := s.succeededIndexes.String()
	var failed *string
	if s.hasLimitPerIndex() {
		failed = ptr.To(s.failedIndexes.String())
	}
	if completed != status.CompletedIndexes || !ptr.Equal(failed, status.FailedIndexes) {
		s.changed = true
	}
	status.Succeeded = int32(s.succeededIndexes.total())
	status.CompletedIndexes, status.FailedIndexes = completed, failed
}

// mayForget reports whether the finalizer of a pod may be removed: it has ended, or the job has. A failed
// pod of an index keeps it until its successor exists.
//
// Upstream: pkg/controller/job canRemoveFinalizer (v1.36).
func (s *state) mayForget(pod *corev1.Pod) bool {
	if s.job.DeletionTimestamp != nil || s.finished != nil || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return s.hasFailed(pod) && (s.replaced[indexOf(pod)] == nil || s.replaced[indexOf(pod)].UID != pod.UID)
}

// writeConditions writes how the job ends to the status, and replaces it by the end itself, which comes
// when all pods are counted.
func (s *state) writeConditions() {
	if s.finished == nil {
		return
	}
	interim, end := *s.finished, batchv1.JobFailed
	switch interim.Type {
	case batchv1.JobFailureTarget:
		s.job.Status.Conditions, s.changed = append(s.job.Status.Conditions, interim), true
	case batchv1.JobSuccessCriteriaMet:
		end = batchv1.JobComplete
		if condition(s.job, interim.Type) == nil {
			s.job.Status.Conditions, s.changed = append(s.job.Status.Conditions, interim), true
		}
	}
	s.finished = newCondition(end, interim.Reason, interim.Message, s.now)
}

// removeFinalizers removes the finalizers of pods, and the pods from tracked. A failure does not keep it
// from trying the others.
//
// Upstream: pkg/controller/job Controller.removeTrackingFinalizerFromPods (v1.36).
func (c *controller) removeFinalizers(
	ctx context.Context, job *batchv1.Job, pods []*corev1.Pod, tracked map[types.UID]struct{},
) error {
	var first error
	for _, pod := range pods {
		if err := c.untrack(ctx, job, pod, untrackPatch(pod)); err != nil {
			first = errors.Join(first, err)
			continue
		}
		c.expected.expectUntracked(job, pod)
		delete(tracked, pod.UID)
	}
	return first
}

// isOver reports whether a job that ends has no pod any more that is not counted or has not gone.
func (s *state) isOver() bool {
	uncounted := s.job.Status.UncountedTerminatedPods
	return s.finished != nil && s.terminating == 0 &&
		(uncounted == nil || len(uncounted.Succeeded)+len(uncounted.Failed) == 0)
}

// finish writes the end of the job to the status.
func (s *state) finish() {
	s.setCondition(s.finished.Type, s.finished.Status, s.finished.Reason, s.finished.Message)
	if s.finished.Type == batchv1.JobComplete {
		s.job.Status.CompletionTime = &s.finished.LastTransitionTime
	}
}

// updateStatus writes the status. The job becomes what the server has stored.
func (c *controller) updateStatus(ctx context.Context, s *state) error {
	stored, err := c.client.BatchV1().Jobs(s.job.Namespace).UpdateStatus(ctx, s.job, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	c.written.Add(s.job, wroteJob, stored)
	if known := c.known[workload.Key(s.job)]; known != nil {
		known.status = *stored.Status.DeepCopy()
	}
	s.job = stored.DeepCopy()
	if s.job.Status.UncountedTerminatedPods == nil {
		s.job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	return nil
}

// reportEnd records events about the end of the job.
//
// Upstream: pkg/controller/job Controller.recordJobFinished (v1.36).
func (c *controller) reportEnd(s *state) {
	if s.finished.Type == batchv1.JobFailed {
		c.recorder.Event(s.job, corev1.EventTypeWarning, s.finished.Reason, s.finished.Message)
		return
	}
	if wanted := s.job.Spec.Completions; wanted != nil && s.job.Status.Succeeded > *wanted {
		c.recorder.Event(s.job, corev1.EventTypeWarning, "TooManySucceededPods",
			"Too many succeeded pods running after completion count reached")
	}
	c.recorder.Event(s.job, corev1.EventTypeNormal, "Completed", "Job completed")
}
