package job

import (
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/workload"
)

// An uncounted has the pods of a job that were not counted when the job had a status: this process has
// created or adopted them, or has read them from the API server with their finalizers. As long as the
// job has that status, no other process has counted them.
type uncounted struct {
	job    types.UID
	status batchv1.JobStatus
	pods   map[types.UID]struct{}
}

// holdsFor reports whether no other process has counted pods of a job.
func (u *uncounted) holdsFor(job *batchv1.Job) bool {
	a, b := uncountedIn(&u.status), uncountedIn(&job.Status)
	return u.job == job.UID && u.status.Succeeded == job.Status.Succeeded && u.status.Failed == job.Status.Failed &&
		slices.Equal(a.Succeeded, b.Succeeded) && slices.Equal(a.Failed, b.Failed)
}

func uncountedIn(status *batchv1.JobStatus) batchv1.UncountedTerminatedPods {
	return ptr.Deref(status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
}

// begin returns what is known of the pods of a job. At the first sync of a process, and when another
// process has written the status, nothing is known. Then the job and its pods are read from the API
// server, and the sync fails until the caches have them. A job without status and pods needs no read: it
// is new. begin returns nil if there is nothing to sync: the job has gone, or another sync follows because
// it has changed.
//
// Differs: upstream relies on its caches, which may have listed an older state.
func (c *controller) begin(ctx context.Context, job *batchv1.Job) (*uncounted, error) {
	key := workload.Key(job)
	if known := c.known[key]; known != nil && known.holdsFor(job) {
		return known, nil
	}
	known := &uncounted{job: job.UID, status: *job.Status.DeepCopy(), pods: map[types.UID]struct{}{}}
	isNew := job.Status.StartTime == nil && len(job.Status.Conditions) == 0 && len(workload.Pods(c.podIndex, job, false)) == 0
	if isNew || c.cfg.ActOnStaleCaches {
		c.known[key] = known
		return known, nil
	}
	stored, err := c.client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && stored.UID != job.UID:
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := c.listPods(ctx, job, known); err != nil {
		return nil, err
	}
	known.status = stored.Status
	c.known[key] = known
	c.written.Add(job, wroteJob, stored)
	if err := c.written.Seen(key); err != nil || stored.ResourceVersion != job.ResourceVersion {
		return nil, err
	}
	return known, nil
}

// listPods reads the pods of a job from the API server. Those with their finalizers become known.
func (c *controller) listPods(ctx context.Context, job *batchv1.Job, known *uncounted) error {
	stored, err := c.client.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(job.Spec.Selector),
	})
	if err != nil {
		return err
	}
	for i := range stored.Items {
		pod := &stored.Items[i]
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		c.written.Add(job, wrotePod, pod)
		if isTracked(pod) {
			known.pods[pod.UID] = struct{}{}
		}
	}
	return nil
}

// verify reads the pods of a job from the API server if the cache has one with a finalizer that is not
// known. The cache may be old: this process before its crash, or another one, may have removed the
// finalizer and counted the pod. Such a pod is not counted again.
//
// Differs: upstream relies on the cache, and on a record of the finalizers that it has removed, which a
// crash loses.
func (c *controller) verify(ctx context.Context, job *batchv1.Job, pods []*corev1.Pod, known *uncounted) error {
	removed := c.expected.untracked[workload.Key(job)]
	unknown := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return !isTracked(pod) || has(removed, pod) || has(known.pods, pod)
	})
	if len(unknown) == 0 {
		return nil
	}
	if err := c.listPods(ctx, job, known); err != nil {
		return err
	}
	for _, pod := range unknown {
		if !has(known.pods, pod) {
			c.expected.expectUntracked(job, pod)
		}
	}
	return nil
}

// know records that a pod of a job is not counted.
func (c *controller) know(job *batchv1.Job, pod *corev1.Pod) {
	if known := c.known[workload.Key(job)]; known != nil {
		known.pods[pod.UID] = struct{}{}
	}
}

// podGone forgets a pod that has been deleted.
func (c *controller) podGone(pod *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return
	}
	if known := c.known[types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}]; known != nil {
		delete(known.pods, pod.UID)
	}
}
