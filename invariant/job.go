package invariant

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about Jobs and CronJobs.
var jobRules = []builtIn{
	{"I48", "a pod of a Job counted twice, or a number of pods that is not that of the pods", workloadRule(beginCounts)},
	{"I49", "the finalizer of a pod that has ended removed before the pod is counted", workloadRule(beginFinalizers)},
	{"I50", "a Job of a CronJob created while another runs, although the CronJob forbids it", workloadRule(beginForbidden)},
	{"L12", "a Job without its pods, or with pods that are not counted", workloadRule(beginJobPods)},
}

// The controllers of jobs.
const (
	jobController  = "job"
	cronController = "cronjob"
)

// beginCounts checks each change of a job's status: the numbers of pods grow by the pods that are no
// longer listed as uncounted, none of which was counted before, and never fall. Succeeded pods of an
// indexed job are counted by their indexes, which may become fewer with its completions.
func beginCounts(c *Checker) watcher {
	counted := reuse.Map[types.UID, bool](c.Reuse)
	left := func(job types.NamespacedName, before, after []types.UID) (n int32) {
		for _, uid := range before {
			if !slices.Contains(after, uid) {
				n++
				if counted[uid] {
					c.report("I48", "pod %s of job %s is counted twice", uid, job)
				}
				counted[uid] = true
			}
		}
		for _, uid := range after {
			if counted[uid] {
				c.report("I48", "pod %s of job %s is counted, and listed as uncounted again", uid, job)
			}
		}
		return n
	}
	return watcher{
		commits: []string{"jobs"},
		commit: func(e fake.Commit) {
			before, ok := e.Before.(*batchv1.Job)
			if !ok || e.Type == watch.Deleted {
				return
			}
			after := e.After.(*batchv1.Job)
			was, is := uncountedOf(before), uncountedOf(after)
			name := types.NamespacedName{Namespace: after.Namespace, Name: after.Name}
			succeeded, failed := left(name, was.Succeeded, is.Succeeded), left(name, was.Failed, is.Failed)
			if d := after.Status.Failed - before.Status.Failed; d != failed {
				c.report("I48", "job %s counts %d failed pods more, and lists %d fewer", name, d, failed)
			}
			if isIndexedJob(after) {
				if n := int32(len(indexesIn(after.Status.CompletedIndexes))); n != after.Status.Succeeded {
					c.report("I48", "job %s counts %d succeeded indexes, and lists %d", name, after.Status.Succeeded, n)
				}
			} else if d := after.Status.Succeeded - before.Status.Succeeded; d != succeeded {
				c.report("I48", "job %s counts %d succeeded pods more, and lists %d fewer", name, d, succeeded)
			}
		},
	}
}

func uncountedOf(job *batchv1.Job) batchv1.UncountedTerminatedPods {
	return ptr.Deref(job.Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
}

func isIndexedJob(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

// indexesIn returns the indexes of a list like "1,3-5".
func indexesIn(text string) []int {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if errFrom != nil || errTo != nil {
			continue
		}
		for i := from; i <= to; i++ {
			all = append(all, i)
		}
	}
	return all
}

// jobOf returns the job that controls a pod; nil if there is none.
func (c *Checker) jobOf(pod *corev1.Pod) *batchv1.Job {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "Job" {
		return nil
	}
	obj, ok := c.API.Get("jobs", pod.Namespace, ref.Name)
	if !ok || obj.GetUID() != ref.UID {
		return nil
	}
	return obj.(*batchv1.Job)
}

func isTracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// jobEnded reports whether a job has finished.
func jobEnded(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// beginFinalizers checks that the controller of jobs removes the finalizer of a pod that has ended only
// when the status of the job has the pod. A failure policy may ignore a pod.
func beginFinalizers(c *Checker) watcher {
	return watcher{
		writes: []string{"pods"},
		write: func(r trace.Record) {
			before, _ := r.Before.(*corev1.Pod)
			if !tookEffect(r) || before == nil || !isTracked(before) || !podEnded(before) || componentOf(r.Task) != jobController {
				return
			}
			after, _ := r.After.(*corev1.Pod)
			job := c.jobOf(before)
			if after != nil && isTracked(after) || job == nil || job.DeletionTimestamp != nil || jobEnded(job) ||
				job.Spec.PodFailurePolicy != nil || after != nil && !metav1.IsControlledBy(after, job) {
				return
			}
			uncounted := uncountedOf(job)
			if slices.Contains(uncounted.Succeeded, before.UID) || slices.Contains(uncounted.Failed, before.UID) {
				return
			}
			if isIndexedJob(job) {
				index, err := strconv.Atoi(before.Annotations[batchv1.JobCompletionIndexAnnotation])
				if err != nil || index >= int(*job.Spec.Completions) || slices.Contains(indexesIn(job.Status.CompletedIndexes), index) {
					return
				}
			}
			c.report("I49", "%s removed the finalizer of pod %s/%s, which is %s and not in the status of its job",
				r.Task, before.Namespace, before.Name, before.Status.Phase)
		},
	}
}

// beginForbidden checks that the controller creates no job of a CronJob that forbids concurrency while
// another one has not ended.
func beginForbidden(c *Checker) watcher {
	return watcher{
		writes: []string{"jobs"},
		write: func(r trace.Record) {
			job, _ := r.After.(*batchv1.Job)
			if r.Verb != "create" || !tookEffect(r) || job == nil || componentOf(r.Task) != cronController {
				return
			}
			ref := metav1.GetControllerOfNoCopy(job)
			if ref == nil {
				return
			}
			cron, _ := c.API.Get("cronjobs", job.Namespace, ref.Name)
			if cron, ok := cron.(*batchv1.CronJob); !ok || cron.UID != ref.UID || cron.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
				return
			}
			for _, obj := range c.API.List("jobs") {
				other := obj.(*batchv1.Job)
				owner := metav1.GetControllerOfNoCopy(other)
				if other.UID != job.UID && owner != nil && owner.UID == ref.UID && !jobEnded(other) {
					c.report("I50", "%s created job %s/%s while %s runs", r.Task, job.Namespace, job.Name, other.Name)
				}
			}
		},
	}
}

// beginJobPods checks that at rest the pods of each job that has not ended have their number, and that
// all pods that have ended are counted.
func beginJobPods(c *Checker) watcher {
	return watcher{
		rest: func(report func(object, why string)) {
			if !c.controllers[jobController] {
				return
			}
			active := map[types.UID]int32{}
			for _, obj := range c.API.List("pods") {
				pod := obj.(*corev1.Pod)
				job := c.jobOf(pod)
				if job == nil || job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName {
					continue
				}
				if !podEnded(pod) && pod.DeletionTimestamp == nil {
					active[job.UID]++
				}
				if podEnded(pod) && isTracked(pod) && (job.Spec.BackoffLimitPerIndex == nil || jobEnded(job)) {
					report(fmt.Sprintf("pods/%s/%s", pod.Namespace, pod.Name), "has ended, and its job has not counted it")
				}
			}
			for _, obj := range c.API.List("jobs") {
				job := obj.(*batchv1.Job)
				if why := wrongNumber(job, active[job.UID]); why != "" {
					report(fmt.Sprintf("jobs/%s/%s", job.Namespace, job.Name), why)
				}
			}
		},
	}
}

// wrongNumber says why a job waits for nothing although it has another number of active pods than it
// wants; "" if it does not.
func wrongNumber(job *batchv1.Job, active int32) string {
	spec, status := &job.Spec, &job.Status
	if jobEnded(job) || job.DeletionTimestamp != nil || ptr.Deref(spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName ||
		spec.BackoffLimitPerIndex != nil || len(status.Conditions) > 0 && status.Conditions[len(status.Conditions)-1].Type != batchv1.JobSuspended {
		return "" // it ends, or has its own reasons
	}
	wanted := ptr.Deref(spec.Parallelism, 1)
	switch {
	case ptr.Deref(spec.Suspend, false):
		wanted = 0
	case spec.Completions != nil:
		if wanted = min(wanted, *spec.Completions-status.Succeeded); wanted <= 0 && active == 0 && *spec.Completions <= status.Succeeded {
			return "is not complete, although enough of its pods have succeeded"
		}
	case status.Succeeded > 0:
		return ""
	}
	if ptr.Deref(spec.PodReplacementPolicy, "") == batchv1.Failed {
		wanted -= ptr.Deref(status.Terminating, 0)
	}
	if active != max(0, wanted) {
		return fmt.Sprintf("has %d active pods, and wants %d", active, max(0, wanted))
	}
	return ""
}
