package job

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/workload"
)

// burst is the number of pods that one sync creates or deletes.
//
// Upstream: pkg/controller/job MaxPodCreateDeletePerSync (v1.36).
const burst = 500

// wanted returns how many pods should be active. A job without a number of completions starts no pod
// after the first success, and leaves the others alone.
func (s *state) wanted() int {
	parallel := int(*s.job.Spec.Parallelism)
	if s.job.Spec.Completions != nil {
		return max(0, min(parallel, int(*s.job.Spec.Completions-s.succeeded)))
	}
	if s.succeeded > 0 {
		return len(s.active)
	}
	return parallel
}

// manage deletes pods that the job has too many, or creates those that it lacks, unless their back-off
// lasts. A suspended job has none.
//
// Upstream: pkg/controller/job Controller.manageJob (v1.36).
func (c *controller) manage(ctx context.Context, s *state) error {
	active := len(s.active)
	if isSuspended(s.job) {
		return c.remove(ctx, s, s.excess(active))
	}
	wanted := s.wanted()
	if excess := s.excess(max(0, active-wanted)); len(excess) > 0 {
		return c.remove(ctx, s, excess[:min(len(excess), burst)])
	}
	if err := c.trackAgain(ctx, s); err != nil {
		return err
	}
	missing := wanted - active
	if s.replacesFailedOnly() {
		missing -= int(s.terminating)
	}
	missing = min(missing, burst)
	if missing <= 0 {
		return nil
	}
	var indexes []int
	wait := s.backoff.remaining(s.now)
	if s.hasLimitPerIndex() {
		wait = 0
	}
	if wait == 0 && s.isIndexed() {
		indexes = s.pending(missing)
		if s.hasLimitPerIndex() {
			indexes, wait = s.due(indexes)
		}
		missing = len(indexes)
	}
	if wait > 0 {
		c.queue.AddAfter(workload.Key(s.job), max(wait, podDelayMin))
		return nil
	}
	template := s.template()
	created, err := workload.SlowStart(missing, func() error {
		pod := workload.NewPod(template, s.job, jobKind)
		if s.isIndexed() {
			s.setIndex(pod, indexes[0])
			indexes = indexes[1:]
		}
		return c.create(ctx, s.job, pod)
	})
	s.activeAfterwards += int32(created)
	return err
}

// create creates a pod. In a namespace that is being deleted there is nothing to do.
//
// Upstream: pkg/controller RealPodControl.createPods (v1.36).
func (c *controller) create(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) error {
	created, err := c.client.CoreV1().Pods(job.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		if !isRefusal(err) {
			delete(c.known, workload.Key(job)) // the next sync reads the pods
		}
		c.recorder.Event(job, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
		return err
	}
	c.written.Add(job, wrotePod, created)
	c.expected.expectCreated(job, created)
	c.know(job, created)
	c.recorder.Event(job, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+created.Name)
	return nil
}

// isRefusal reports whether a request that failed had no effect.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}

// delete deletes a pod of a job.
func (c *controller) delete(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) error {
	return workload.DeletePod(ctx, c.client, c.recorder, job, pod, func() { c.expected.expectDeleted(job, pod) })
}

// deleteActive deletes the active pods of a job that ends. They keep their finalizers, so that they are
// counted. It reports whether all are deleted.
//
// Upstream: pkg/controller/job Controller.deleteActivePods (v1.36).
func (c *controller) deleteActive(ctx context.Context, s *state) (all bool, err error) {
	for _, pod := range s.active {
		if failure := c.delete(ctx, s.job, pod); failure == nil {
			s.lose(pod)
		} else if err == nil {
			err = failure
		}
	}
	return s.activeAfterwards == 0, err
}

// remove deletes pods that are not counted: they lose their finalizers before. A failure does not keep it
// from trying the others.
//
// Differs: a pod that has changed since it was seen keeps its finalizer: it may have ended. Upstream does
// not count a pod that ends while it is removed.
//
// Upstream: pkg/controller/job Controller.deleteJobPods (v1.36).
func (c *controller) remove(ctx context.Context, s *state, pods []*corev1.Pod) error {
	var first error
	for _, pod := range pods {
		err := c.untrack(ctx, s.job, pod, untrackSeenPatch(pod))
		if err != nil {
			err = fmt.Errorf("removing completion finalizer: %w", err)
		} else {
			err = c.delete(ctx, s.job, pod)
		}
		if err == nil {
			s.lose(pod)
		} else if first == nil {
			first = err
		}
	}
	return first
}

// trackAgain gives active pods that have lost their finalizers those again. A removal that a crash
// interrupted leaves such a pod.
//
// Differs: upstream keeps such a pod, and does not count it when it has ended.
func (c *controller) trackAgain(ctx context.Context, s *state) error {
	for _, pod := range s.active {
		if isTracked(pod) {
			continue
		}
		if err := c.patchPod(ctx, s.job, pod, trackPatch(pod)); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("adding completion finalizer: %w", err)
		}
		c.know(s.job, pod)
	}
	return nil
}

// untrack removes the finalizer of a pod with a patch. One that is gone needs nothing.
func (c *controller) untrack(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, patch []byte) error {
	if !isTracked(pod) {
		return nil
	}
	err := c.patchPod(ctx, job, pod, patch)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// lose counts an active pod as one that is being deleted.
//
// Differs: a pod that was not deleted stays ready. Upstream does not count it as ready any more.
func (s *state) lose(pod *corev1.Pod) {
	s.activeAfterwards--
	s.terminating++
	if workload.Ready(pod) != nil {
		s.ready--
	}
}
