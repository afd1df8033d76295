package cronjob

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/workload"
)

// nameOf returns the name of the job for a time: it ends with the minutes since 1970.
func nameOf(cron *batchv1.CronJob, at time.Time) string {
	return fmt.Sprintf("%s-%d", cron.Name, at.Unix()/60)
}

// newJob returns the job for a time.
//
// Upstream: pkg/controller/cronjob getJobFromTemplate2 (v1.36).
func newJob(cron *batchv1.CronJob, at time.Time) (*batchv1.Job, error) {
	zone, err := time.LoadLocation(ptr.Deref(cron.Spec.TimeZone, ""))
	if err != nil {
		return nil, err
	}
	t := cron.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: nameOf(cron, at), Namespace: cron.Namespace, CreationTimestamp: metav1.NewTime(at),
			Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations),
			OwnerReferences: []metav1.OwnerReference{workload.ControllerRef(cron, cronKind)},
		},
		Spec: t.Spec,
	}
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, batchv1.CronJobScheduledTimestampAnnotation, at.In(zone).Format(time.RFC3339))
	return job, nil
}

// start creates the job for a time, unless it is too late, has been created, or the concurrency policy
// forbids it.
//
// Upstream: pkg/controller/cronjob ControllerV2.syncCronJob (v1.36).
func (c *controller) start(ctx context.Context, s *state, at time.Time) error {
	cron := s.cron
	if isTooLate(cron, at, s.now) {
		c.warn(cron, "MissSchedule", "Missed scheduled time to start a job: %s", at.UTC().Format(time.RFC1123Z))
		return nil
	}
	name := nameOf(cron, at)
	if cron.Status.LastScheduleTime.Equal(&metav1.Time{Time: at}) ||
		slices.ContainsFunc(cron.Status.Active, func(ref corev1.ObjectReference) bool { return ref.Name == name }) {
		return nil
	}
	switch cron.Spec.ConcurrencyPolicy {
	case batchv1.ForbidConcurrent:
		if busy, err := c.isBusy(ctx, cron, name); busy || err != nil {
			return err
		}
	case batchv1.ReplaceConcurrent:
		if err := c.deleteActive(ctx, s); err != nil {
			return err
		}
	case batchv1.AllowConcurrent:
	}
	job, err := newJob(cron, at)
	if err != nil {
		return err
	}
	return c.create(ctx, s, job, at)
}

// isBusy reports whether a job of a cron job, other than the next one, has not ended.
//
// Differs: before it creates a job, it reads the jobs from the server. Upstream trusts the list in the
// status and the caches, which may lack a job that was created before a crash.
func (c *controller) isBusy(ctx context.Context, cron *batchv1.CronJob, next string) (bool, error) {
	busy := len(cron.Status.Active) > 0
	if !busy {
		jobs, err := c.client.BatchV1().Jobs(cron.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		busy = slices.ContainsFunc(jobs.Items, func(job batchv1.Job) bool {
			return metav1.IsControlledBy(&job, cron) && job.Name != next && workload.EndOf(&job) == nil
		})
	}
	if busy {
		c.report(cron, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
	}
	return busy, nil
}

// deleteActive deletes the active jobs, which the next one replaces.
func (c *controller) deleteActive(ctx context.Context, s *state) error {
	for _, ref := range s.cron.Status.Active {
		job, err := c.client.BatchV1().Jobs(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			c.warn(s.cron, "FailedGet", "Get job: %v", err)
			return err
		}
		if err := c.delete(ctx, s, job); err != nil {
			return err
		}
	}
	return nil
}

// create creates a job, and adds it to the list of active jobs. A job that the controller created before
// a crash is added too.
func (c *controller) create(ctx context.Context, s *state, job *batchv1.Job, at time.Time) error {
	jobs := c.client.BatchV1().Jobs(job.Namespace)
	created, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case apierrors.IsAlreadyExists(err):
		if created, err = jobs.Get(ctx, job.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !metav1.IsControlledBy(created, s.cron) || isActive(s.cron, created.UID) {
			return nil
		}
	case err != nil:
		c.warn(s.cron, "FailedCreate", "Error creating job: %v", err)
		return err
	default:
		c.written.Add(s.cron, wroteJob, created)
		c.report(s.cron, "SuccessfulCreate", "Created job %v", created.Name)
	}
	s.cron.Status.Active = append(s.cron.Status.Active, corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: created.Namespace, Name: created.Name,
		UID: created.UID, ResourceVersion: created.ResourceVersion,
	})
	s.cron.Status.LastScheduleTime, s.changed = ptr.To(metav1.NewTime(at)), true
	return nil
}
