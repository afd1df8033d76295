package rules

import (
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// This file validates the status of jobs. What a write does not change may be invalid: an update of
// the spec may have made it so.
//
// Upstream: pkg/apis/batch/validation ValidateJobUpdateStatus; pkg/registry/batch/job
// getStatusValidationOptions (v1.36).

// jobCondition returns the status of the condition of a type; "" if there is none.
func jobCondition(job *batchv1.Job, of batchv1.JobConditionType) corev1.ConditionStatus {
	for _, c := range job.Status.Conditions {
		if c.Type == of {
			return c.Status
		}
	}
	return ""
}

// jobIs reports whether a condition is True.
func jobIs(job *batchv1.Job, of batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == of && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func jobFinished(job *batchv1.Job) bool {
	return jobIs(job, batchv1.JobComplete) || jobIs(job, batchv1.JobFailed)
}

// A statusChange is a write of a job's status.
type statusChange struct {
	job, old *batchv1.Job
	errs     field.ErrorList
}

// turned reports whether a property differs.
func (c *statusChange) turned(has func(*batchv1.Job) bool) bool { return has(c.job) != has(c.old) }

// conditioned reports whether a condition has become True or is no longer True.
func (c *statusChange) conditioned(of batchv1.JobConditionType) bool {
	return c.turned(func(job *batchv1.Job) bool { return jobIs(job, of) })
}

// invalid adds an error.
func (c *statusChange) invalid(name string, value any, format string, args ...any) {
	c.errs = append(c.errs, field.Invalid(statusPath.Child(name), value, fmt.Sprintf(format, args...)))
}

// condition adds an error about the conditions.
func (c *statusChange) condition(msg string) {
	c.invalid("conditions", field.OmitValueType{}, "%s", msg)
}

// required adds an error about a missing field.
func (c *statusChange) required(name, msg string) {
	c.errs = append(c.errs, field.Required(statusPath.Child(name), msg))
}

func validateJobStatus(job, old *batchv1.Job) field.ErrorList {
	c := &statusChange{job: job, old: old}
	s := &job.Status
	c.errs = validateNotNegative(statusPath, counted{"active", int64(s.Active)}, counted{"succeeded", int64(s.Succeeded)},
		counted{"failed", int64(s.Failed)}, countOf("ready", s.Ready), countOf("terminating", s.Terminating))
	c.validateUncounted()
	c.validateTimes()
	c.validateFinished()
	c.validateIndexes()
	c.validateCounts()
	c.validateSuccess()
	c.validateTransition()
	return c.errs
}

// validateUncounted validates that no pod is listed twice.
func (c *statusChange) validateUncounted() {
	pods := c.job.Status.UncountedTerminatedPods
	if pods == nil {
		return
	}
	path, seen := statusPath.Child("uncountedTerminatedPods"), map[types.UID]bool{}
	for _, list := range []struct {
		name string
		uids []types.UID
	}{{"succeeded", pods.Succeeded}, {"failed", pods.Failed}} {
		for i, uid := range list.uids {
			switch path := path.Child(list.name).Index(i); {
			case uid == "":
				c.errs = append(c.errs, field.Invalid(path, uid, "must not be empty"))
			case seen[uid]:
				c.errs = append(c.errs, field.Duplicate(path, uid))
			}
			seen[uid] = true
		}
	}
}

// validateTimes validates the conditions of the end against each other, and the completion time.
func (c *statusChange) validateTimes() {
	job, s := c.job, &c.job.Status
	complete, completed := jobIs(job, batchv1.JobComplete), c.conditioned(batchv1.JobComplete)
	if (completed || c.conditioned(batchv1.JobFailed)) && complete && jobIs(job, batchv1.JobFailed) {
		c.condition("cannot set Complete=True and Failed=true conditions")
	}
	if (completed || c.conditioned(batchv1.JobFailureTarget)) && complete && jobIs(job, batchv1.JobFailureTarget) {
		c.condition("cannot set Complete=True and FailureTarget=true conditions")
	}
	ended := !sameTime(s.CompletionTime, c.old.Status.CompletionTime)
	if (completed || ended) && s.CompletionTime != nil && !complete {
		c.invalid("completionTime", s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
	}
	if (completed || ended) && s.CompletionTime == nil && complete {
		c.required("completionTime", "completionTime is required for Complete jobs")
	}
	if (ended || c.started()) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		c.invalid("completionTime", s.CompletionTime, "must be equal to or after `startTime`")
	}
}

func (c *statusChange) started() bool {
	return !sameTime(c.job.Status.StartTime, c.old.Status.StartTime)
}

// sameTime reports whether two times are the same in an object that is sent: to the second. Clients
// in memory store fractions of a second, which clients over HTTP do not return.
func sameTime(a, b *metav1.Time) bool {
	return a.IsZero() == b.IsZero() && (a.IsZero() || a.Unix() == b.Unix())
}

// validateFinished validates a job that has finished.
func (c *statusChange) validateFinished() {
	job, s := c.job, &c.job.Status
	finished, turned := jobFinished(job), c.turned(jobFinished)
	if (c.conditioned(batchv1.JobFailed) || c.failedIndexesChanged()) &&
		jobIs(job, batchv1.JobFailed) && !jobIs(job, batchv1.JobFailureTarget) {
		c.condition("cannot set Failed=True condition without the FailureTarget=true condition")
	}
	if (c.conditioned(batchv1.JobComplete) || c.conditioned(batchv1.JobSuccessCriteriaMet)) &&
		jobIs(job, batchv1.JobComplete) && !jobIs(job, batchv1.JobSuccessCriteriaMet) {
		c.condition("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	}
	if !finished {
		return
	}
	if (turned || s.Active != c.old.Status.Active) && s.Active > 0 {
		c.invalid("active", s.Active, "active>0 is invalid for finished job")
	}
	nothing := ptr.Deref(job.Spec.Suspend, false) && ptr.Deref(job.Spec.Completions, 1) == 0
	if (turned || c.started()) && !nothing && s.StartTime == nil {
		c.required("startTime", "startTime is required for finished job")
	}
	if u := s.UncountedTerminatedPods; (turned || !sameUncounted(job, c.old)) && u != nil && len(u.Failed)+len(u.Succeeded) > 0 {
		c.invalid("uncountedTerminatedPods", goFields{u}, "must be empty for finished job")
	}
}

func (c *statusChange) failedIndexesChanged() bool {
	return !ptr.Equal(c.job.Status.FailedIndexes, c.old.Status.FailedIndexes)
}

// validateIndexes validates the lists of indexes.
func (c *statusChange) validateIndexes() {
	spec, s := &c.job.Spec, &c.job.Status
	completedChanged, failedChanged := s.CompletedIndexes != c.old.Status.CompletedIndexes, c.failedIndexesChanged()
	n := ptr.Deref(spec.Completions, 0)
	if completedChanged && spec.Completions != nil {
		if _, err := parseIndexes(s.CompletedIndexes, n); err != nil {
			c.invalid("completedIndexes", s.CompletedIndexes, "error parsing completedIndexes: %s", err)
		}
	}
	if failedChanged && spec.Completions != nil && spec.BackoffLimitPerIndex != nil && s.FailedIndexes != nil {
		if _, err := parseIndexes(*s.FailedIndexes, n); err != nil {
			c.invalid("failedIndexes", s.FailedIndexes, "error parsing failedIndexes: %s", err)
		}
	}
	if completedChanged && s.CompletedIndexes != "" && !isIndexed(spec) {
		c.invalid("completedIndexes", s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failedChanged && spec.BackoffLimitPerIndex == nil && s.FailedIndexes != nil {
		c.invalid("failedIndexes", *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if (completedChanged || failedChanged) && spec.Completions != nil && s.FailedIndexes != nil {
		if at, ok := overlap(validIndexes(s.CompletedIndexes, n), validIndexes(*s.FailedIndexes, n)); ok {
			c.invalid("failedIndexes", *s.FailedIndexes, "failedIndexes and completedIndexes overlap at index: %d", at)
		}
	}
}

// validateCounts validates the numbers of pods that are not terminated.
func (c *statusChange) validateCounts() {
	s, old := &c.job.Status, &c.old.Status
	if (c.turned(jobFinished) || !ptr.Equal(s.Terminating, old.Terminating)) &&
		ptr.Deref(s.Terminating, 0) > 0 && jobFinished(c.job) {
		c.invalid("terminating", s.Terminating, "terminating>0 is invalid for finished job")
	}
	if (!ptr.Equal(s.Ready, old.Ready) || s.Active != old.Active) && ptr.Deref(s.Ready, 0) > s.Active {
		c.invalid("ready", *s.Ready, "cannot set more ready pods than active")
	}
}

// validateSuccess validates the condition SuccessCriteriaMet.
func (c *statusChange) validateSuccess() {
	job := c.job
	met := jobIs(job, batchv1.JobSuccessCriteriaMet)
	if met && jobIs(job, batchv1.JobFailed) {
		c.condition("cannot set SuccessCriteriaMet=True and Failed=true conditions")
	}
	if met && jobIs(job, batchv1.JobFailureTarget) {
		c.condition("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	}
	if !met && job.Spec.SuccessPolicy != nil && jobIs(job, batchv1.JobComplete) {
		c.condition("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	}
}

// validateTransition validates what must not change any more.
func (c *statusChange) validateTransition() {
	job, old := c.job, c.old
	for _, of := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if jobIs(old, of) && !jobIs(job, of) {
			c.condition(fmt.Sprintf("cannot disable the terminal %s=True condition", of))
		}
	}
	if job.Status.Failed < old.Status.Failed {
		c.invalid("failed", job.Status.Failed, "cannot decrease the failed counter")
	}
	scalable := isIndexed(&job.Spec) && ptr.Equal(job.Spec.Completions, job.Spec.Parallelism)
	if !scalable && job.Status.Succeeded < old.Status.Succeeded {
		c.invalid("succeeded", job.Status.Succeeded, "cannot decrease the succeeded counter")
	}
	if is, was := job.Status.CompletionTime, old.Status.CompletionTime; is != nil && was != nil && !sameTime(is, was) {
		c.invalid("completionTime", is, "field is immutable")
	}
	resumes := jobIs(old, batchv1.JobSuspended) && jobCondition(job, batchv1.JobSuspended) == corev1.ConditionFalse
	if old.Status.StartTime != nil && c.started() && !resumes && !ptr.Deref(job.Spec.Suspend, false) {
		c.invalid("startTime", job.Status.StartTime, "field is immutable for unsuspended job once set")
	}
	met, wasMet := jobIs(job, batchv1.JobSuccessCriteriaMet), jobIs(old, batchv1.JobSuccessCriteriaMet)
	if wasMet && !met {
		c.condition("cannot disable the SuccessCriteriaMet=True condition")
	}
	if jobIs(old, batchv1.JobComplete) && !wasMet && met {
		c.condition("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
}

// An indexInterval is a range of completion indexes.
type indexInterval struct{ first, last int32 }

// total returns the number of indexes.
func total(intervals []indexInterval) int32 {
	var n int32
	for _, in := range intervals {
		n += in.last - in.first + 1
	}
	return n
}

// parseIndexes parses a list of intervals like "1,3-5" of indexes below n. With an error it returns
// none.
func parseIndexes(text string, n int32) ([]indexInterval, error) {
	var all []indexInterval
	if text == "" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		in, err := parseInterval(part, n)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && all[len(all)-1].last >= in.first {
			return nil, orderError(all[len(all)-1].last, in.first)
		}
		all = append(all, in)
	}
	return all, nil
}

func orderError(before, now int32) error {
	return fmt.Errorf("non-increasing order, previous: %d, current: %d", before, now)
}

// validIndexes returns the intervals of a list that are valid.
func validIndexes(text string, n int32) []indexInterval {
	var all []indexInterval
	for _, part := range strings.Split(text, ",") {
		if in, err := parseInterval(part, n); err == nil {
			all = append(all, in)
		}
	}
	return all
}

func parseInterval(text string, n int32) (indexInterval, error) {
	parts := strings.Split(text, "-")
	if len(parts) > 2 {
		return indexInterval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most "+
			"two parts separated by '-'", text)
	}
	var ends [2]int32
	for i, part := range parts {
		v, err := strconv.Atoi(part)
		if err != nil {
			return indexInterval{}, fmt.Errorf("cannot convert string to integer for index: %q", part)
		}
		if v >= int(n) {
			return indexInterval{}, fmt.Errorf("too large index: %q", part)
		}
		ends[i] = int32(v)
	}
	if len(parts) == 1 {
		return indexInterval{ends[0], ends[0]}, nil
	}
	if ends[0] >= ends[1] {
		return indexInterval{}, orderError(ends[0], ends[1])
	}
	return indexInterval{ends[0], ends[1]}, nil
}

// overlap returns the first index that two ordered lists share.
func overlap(a, b []indexInterval) (int32, bool) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].first <= b[0].last && b[0].first <= a[0].last:
			return max(a[0].first, b[0].first), true
		case a[0].first <= b[0].first:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return 0, false
}
