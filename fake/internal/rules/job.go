package rules

import (
	"fmt"
	"maps"
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// This file has the defaults of jobs and cron jobs, the fields that the server sets, and warnings.
//
// Upstream: pkg/apis/batch/v1/defaults.go; pkg/registry/batch, the strategies.

const (
	backoffLimitDefault      = 6
	successfulHistoryDefault = 3
	failedHistoryDefault     = 1
)

// The labels of a job's pods before they had the prefix batch.kubernetes.io. Both are set.
const (
	legacyJobName       = "job-name"
	legacyControllerUID = "controller-uid"
)

// defaultJob also gives a job without labels those of its template.
func defaultJob(job *batchv1.Job) {
	spec := &job.Spec
	defaultJobTemplate(spec)
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions = ptr.To[int32](1)
	}
	setIfNil(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		setIfNil(&spec.BackoffLimit, math.MaxInt32)
	}
	setIfNil(&spec.BackoffLimit, backoffLimitDefault)
	defaultJobLabels(job)
	setIfNil(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	setIfNil(&spec.Suspend, false)
	if spec.PodFailurePolicy != nil {
		setIfNil(&spec.PodReplacementPolicy, batchv1.Failed)
	}
	setIfNil(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	setIfNil(&spec.ManualSelector, false)
	status := &job.Status
	Truncate(status.StartTime, status.CompletionTime)
	for i := range status.Conditions {
		Truncate(&status.Conditions[i].LastProbeTime, &status.Conditions[i].LastTransitionTime)
	}
}

// defaultJobLabels lets a job without labels share those of its template, as upstream does: what the
// server then adds to the template the job has too.
func defaultJobLabels(job *batchv1.Job) {
	if len(job.Labels) == 0 {
		job.Labels = job.Spec.Template.Labels
	}
}

// defaultJobTemplate sets the defaults that the template of a job in a cron job also has.
func defaultJobTemplate(spec *batchv1.JobSpec) {
	defaultTemplate(&spec.Template)
	if spec.PodFailurePolicy == nil {
		return
	}
	for i := range spec.PodFailurePolicy.Rules {
		patterns := spec.PodFailurePolicy.Rules[i].OnPodConditions
		for j := range patterns {
			setIfEmpty(&patterns[j].Status, corev1.ConditionTrue)
		}
	}
}

func defaultCronJob(c *batchv1.CronJob) {
	spec := &c.Spec
	defaultJobTemplate(&spec.JobTemplate.Spec)
	setIfEmpty(&spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	setIfNil(&spec.Suspend, false)
	setIfNil(&spec.SuccessfulJobsHistoryLimit, successfulHistoryDefault)
	setIfNil(&spec.FailedJobsHistoryLimit, failedHistoryDefault)
	Truncate(c.Status.LastScheduleTime, c.Status.LastSuccessfulTime)
}

// prepareJobCreate also sets the selector, and the labels that it selects, unless the writer manages
// them.
//
// Differs: labels that a job gets from its generated template are validated as the job's, too. Upstream
// sets them when it reads the job.
func prepareJobCreate(_ metav1.Time, job, _ *batchv1.Job) {
	job.Status, job.Generation = batchv1.JobStatus{}, 1
	if *job.Spec.ManualSelector {
		return
	}
	t := &job.Spec.Template
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	for label, value := range generatedLabels(job) {
		if _, sent := t.Labels[label]; !sent {
			t.Labels[label] = value
		}
	}
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	s := job.Spec.Selector
	if _, sent := s.MatchLabels[batchv1.ControllerUidLabel]; !sent {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[batchv1.ControllerUidLabel] = string(job.UID)
	}
	defaultJobLabels(job)
	job.Labels = maps.Clone(job.Labels)
}

// generatedLabels returns the labels of the pods of a job without a manual selector.
func generatedLabels(job *batchv1.Job) map[string]string {
	return map[string]string{
		legacyJobName: job.Name, batchv1.JobNameLabel: job.Name,
		legacyControllerUID: string(job.UID), batchv1.ControllerUidLabel: string(job.UID),
	}
}

func prepareJobUpdate(_ metav1.Time, job, old *batchv1.Job) {
	if !equal(&job.Spec, &old.Spec) {
		job.Generation = old.Generation + 1
	}
}

func prepareCronJobCreate(_ metav1.Time, c, _ *batchv1.CronJob) {
	c.Status, c.Generation = batchv1.CronJobStatus{}, 1
}

func prepareCronJobUpdate(_ metav1.Time, c, old *batchv1.CronJob) {
	if !equal(&c.Spec, &old.Spec) {
		c.Generation = old.Generation + 1
	}
}

// warnJob returns warnings about a job's name, and about the volumes of its pods.
//
// Differs: as warnPod.
//
// Upstream: pkg/registry/batch/job jobStrategy.WarningsOnCreate, pkg/api/job WarningsForJobSpec.
func warnJob(job, old *batchv1.Job) []string {
	if old != nil && job.Generation == old.Generation {
		return nil
	}
	return append(warnJobName(job.Name, old == nil), warnJobSpec(&job.Spec, specPath)...)
}

func warnJobName(name string, created bool) []string {
	problems := utilvalidation.IsDNS1123Label(name)
	if !created || len(problems) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "+
		"a DNS label is recommended: %v", problems)}
}

func warnJobSpec(spec *batchv1.JobSpec, path *field.Path) []string {
	var out []string
	if isIndexed(spec) &&
		ptr.Deref(spec.Completions, 0) > manyCompletions && ptr.Deref(spec.Parallelism, 0) > manyParallel {
		out = append(out, fmt.Sprintf("%s: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher "+
			"than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail", path))
	}
	return append(out, warnPodSpec(&spec.Template.Spec, path.Child("template", "spec"))...)
}

func warnCronJob(c, old *batchv1.CronJob) []string {
	var out []string
	if old == nil || c.Generation != old.Generation {
		out = append(warnJobName(c.Name, old == nil),
			warnJobSpec(&c.Spec.JobTemplate.Spec, specPath.Child("jobTemplate", "spec"))...)
	}
	if old != nil && hasZone(c.Spec.Schedule) {
		out = append(out, fmt.Sprintf("cannot use TZ or CRON_TZ in %s, use timeZone instead, see "+
			"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
			specPath.Child("spec", "schedule")))
	}
	return out
}
