package cronjob

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/workload"
)

func isActive(cron *batchv1.CronJob, uid types.UID) bool {
	return slices.ContainsFunc(cron.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}

// dropActive removes a job from the list of active ones.
func (s *state) dropActive(uid types.UID) {
	s.changed = true
	s.cron.Status.Active = slices.DeleteFunc(slices.Clone(s.cron.Status.Active),
		func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}

// updateActive removes jobs that have ended or gone from the list of active ones, and records the last
// success.
//
// Differs: if the list of the server has a job that the cache's lacks, what follows changes that list.
// Upstream's changes are lost then.
//
// Upstream: pkg/controller/cronjob ControllerV2.syncCronJob (v1.36).
func (c *controller) updateActive(ctx context.Context, s *state) error {
	for _, job := range s.jobs {
		active, end := isActive(s.cron, job.UID), workload.EndOf(job)
		switch {
		case !active && end == nil:
			fresh, err := c.client.BatchV1().CronJobs(s.cron.Namespace).Get(ctx, s.cron.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if isActive(fresh, job.UID) {
				s.cron = fresh.DeepCopy()
				continue
			}
			c.warn(s.cron, "UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", job.Name)
		case active && end != nil:
			s.dropActive(job.UID)
			c.report(s.cron, "SawCompletedJob", "Saw completed job: %s, condition: %v", job.Name, end.Type)
		}
		if end != nil && end.Type == batchv1.JobComplete {
			s.recordSuccess(job)
		}
	}
	for _, ref := range s.cron.Status.Active {
		if slices.ContainsFunc(s.jobs, func(job *batchv1.Job) bool { return job.UID == ref.UID }) {
			continue
		}
		_, err := c.client.BatchV1().Jobs(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			c.report(s.cron, "MissingJob", "Active job went missing: %v", ref.Name)
			s.dropActive(ref.UID)
		case err != nil:
			return err
		}
	}
	return nil
}

func (s *state) recordSuccess(job *batchv1.Job) {
	status, at := &s.cron.Status, job.Status.CompletionTime
	if status.LastSuccessfulTime == nil || at != nil && at.After(status.LastSuccessfulTime.Time) {
		status.LastSuccessfulTime, s.changed = at, true
	}
}

// deleteOld deletes the oldest jobs that have ended, so that no more are left than the limits say. A
// failure is reported, and does not keep it from trying the others.
//
// Upstream: pkg/controller/cronjob ControllerV2.cleanupFinishedJobs (v1.36).
func (c *controller) deleteOld(ctx context.Context, s *state) {
	for _, of := range []struct {
		end   batchv1.JobConditionType
		limit *int32
	}{{batchv1.JobComplete, s.cron.Spec.SuccessfulJobsHistoryLimit}, {batchv1.JobFailed, s.cron.Spec.FailedJobsHistoryLimit}} {
		if of.limit == nil {
			continue
		}
		var ended []*batchv1.Job
		for _, job := range s.jobs {
			if end := workload.EndOf(job); end != nil && end.Type == of.end {
				ended = append(ended, job)
			}
		}
		slices.SortStableFunc(ended, compareStart)
		for _, job := range ended[:max(0, len(ended)-int(*of.limit))] {
			_ = c.delete(ctx, s, job) // it is reported, and tried again by the next sync
		}
	}
}

// compareStart orders jobs by their start; those that never started come last.
func compareStart(a, b *batchv1.Job) int {
	at, bt := a.Status.StartTime, b.Status.StartTime
	switch {
	case at == nil && bt == nil:
		return 0
	case at == nil:
		return 1
	case bt == nil:
		return -1
	default:
		return at.Compare(bt.Time)
	}
}

// delete deletes a job and its pods, and removes it from the list of active jobs.
//
// Differs: the UID is a precondition. Upstream deletes by name.
//
// Upstream: pkg/controller/cronjob deleteJob (v1.36).
func (c *controller) delete(ctx context.Context, s *state, job *batchv1.Job) error {
	background := metav1.DeletePropagationBackground
	err := c.client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(string(job.UID)),
	})
	if err != nil {
		c.warn(s.cron, "FailedDelete", "Deleted job: %v", err)
		return fmt.Errorf("could not replace job %s/%s", job.Namespace, job.Name)
	}
	s.dropActive(job.UID)
	c.report(s.cron, "SuccessfulDelete", "Deleted job %v", job.Name)
	return nil
}
