package table

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
)

// The columns of jobs and cron jobs.
var (
	jobColumns = []metav1.TableColumnDefinition{
		name,
		text("Status", "Status of the job."),
		text("Completions", doc(batchv1.JobStatus{}, "succeeded")),
		text("Duration", "Time required to complete the job."),
		age, containersColumn, imagesColumn,
		wide(text("Selector", doc(batchv1.JobSpec{}, "selector"))),
	}
	cronJobColumns = []metav1.TableColumnDefinition{
		name,
		text("Schedule", doc(batchv1.CronJobSpec{}, "schedule")),
		text("Timezone", doc(batchv1.CronJobSpec{}, "timeZone")),
		yesNo("Suspend", doc(batchv1.CronJobSpec{}, "suspend")),
		number("Active", doc(batchv1.CronJobStatus{}, "active")),
		text("Last Schedule", doc(batchv1.CronJobStatus{}, "lastScheduleTime")),
		age, containersColumn, imagesColumn,
		wide(text("Selector", doc(batchv1.JobSpec{}, "selector"))),
	}
)

func jobCells(job *batchv1.Job, now clock) []any {
	names, images := containerCells(job.Spec.Template.Spec.Containers)
	return []any{
		job.Name, jobStatus(job), jobCompletions(job), jobDuration(job, now), now.since(job.CreationTimestamp),
		names, images, metav1.FormatLabelSelector(job.Spec.Selector),
	}
}

// jobStatus returns the condition that matters most.
func jobStatus(job *batchv1.Job) string {
	is := func(of batchv1.JobConditionType) bool {
		for _, c := range job.Status.Conditions {
			if c.Type == of {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	switch {
	case is(batchv1.JobComplete):
		return string(batchv1.JobComplete)
	case is(batchv1.JobFailed):
		return string(batchv1.JobFailed)
	case job.DeletionTimestamp != nil:
		return "Terminating"
	}
	for _, of := range []batchv1.JobConditionType{batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if is(of) {
			return string(of)
		}
	}
	return "Running"
}

func jobCompletions(job *batchv1.Job) string {
	succeeded, parallel := job.Status.Succeeded, ptr.Deref(job.Spec.Parallelism, 0)
	switch {
	case job.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", succeeded, *job.Spec.Completions)
	case parallel > 1:
		return fmt.Sprintf("%d/1 of %d", succeeded, parallel)
	default:
		return fmt.Sprintf("%d/1", succeeded)
	}
}

// jobDuration returns how long a job took, or has taken so far.
func jobDuration(job *batchv1.Job, now clock) string {
	start, end := job.Status.StartTime, job.Status.CompletionTime
	if start == nil {
		return ""
	}
	if end == nil {
		return duration.HumanDuration(now.now.Sub(start.Time))
	}
	return duration.HumanDuration(end.Sub(start.Time))
}

func suspendCell(suspend *bool) string {
	switch {
	case suspend == nil:
		return "<unset>"
	case *suspend:
		return "True"
	default:
		return "False"
	}
}

func cronJobCells(c *batchv1.CronJob, now clock) []any {
	last := none
	if t := c.Status.LastScheduleTime; t != nil {
		last = now.since(*t)
	}
	names, images := containerCells(c.Spec.JobTemplate.Spec.Template.Spec.Containers)
	return []any{
		c.Name, c.Spec.Schedule, ptr.Deref(c.Spec.TimeZone, none), suspendCell(c.Spec.Suspend), int64(len(c.Status.Active)), last,
		now.since(c.CreationTimestamp), names, images, metav1.FormatLabelSelector(c.Spec.JobTemplate.Spec.Selector),
	}
}
