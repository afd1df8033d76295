package job

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// uids returns the UIDs a, b, c … that a text consists of.
func uids(text string) []types.UID {
	var all []types.UID
	for _, c := range text {
		all = append(all, types.UID(c))
	}
	return all
}

// listed returns the status of a job as text: succeeded and failed pods, then the uncounted ones of each.
func listed(status *batchv1.JobStatus) string {
	text := fmt.Sprintf("%d %d", status.Succeeded, status.Failed)
	for _, list := range [][]types.UID{status.UncountedTerminatedPods.Succeeded, status.UncountedTerminatedPods.Failed} {
		text += " "
		for _, uid := range list {
			text += string(uid)
		}
	}
	return strings.TrimRight(text, " ")
}

// TestEndedPods: which pods are new, of those that have ended.
func TestEndedPods(t *testing.T) {
	for name, test := range map[string]struct {
		pods, succeeded, failed string // uncounted
		removing                string
		want                    string // succeeded and failed pods
	}{
		"some counted":                     {":S :S! :F :F! :R", "", "", "", "4 5"},
		"some uncounted":                   {":S :S :F :F", "a", "c", "", "5 6"},
		"with expected removed finalizers": {":S :S :F :F", "a", "d", "bc", "4 5"},
	} {
		j := &batchv1.Job{Status: batchv1.JobStatus{Succeeded: 3, Failed: 4, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{
			Succeeded: uids(test.succeeded), Failed: uids(test.failed),
		}}}
		s := newState(j, parsePods(test.pods), setOf(uids(test.removing)), noon)
		s.observe(backoff{})
		if got := fmt.Sprint(s.succeeded, s.failed); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestCount: the status with the pods that have ended, and after the finalizers of some of them are removed.
func TestCount(t *testing.T) {
	failed := &batchv1.JobCondition{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}
	for name, test := range map[string]struct {
		pods        string
		before      batchv1.JobStatus // numbers and indexes
		succeeded   string            // uncounted
		failed      string
		removing    string
		completions int32 // of an indexed job; 0: it is not one
		finished    *batchv1.JobCondition
		deleted     bool
		listed      string // after the pods are listed
		ended       string // pods that lose their finalizers
		kept        string // pods that keep them because of an error
		counted     string
	}{
		"new active":             {pods: ":R", listed: "0 0", counted: "0 0"},
		"track finished pods":    {pods: ":S :F :S! :F! :P :R", listed: "0 0 a b", ended: "a b", counted: "1 1"},
		"past and new finished":  {pods: ":S :S :S! :F :F :F!", before: batchv1.JobStatus{Succeeded: 2, Failed: 3}, succeeded: "ac", failed: "df", listed: "3 4 ab de", ended: "a b d e", counted: "5 6"},
		"removed finalizers":     {pods: ":S :S :F", before: batchv1.JobStatus{Succeeded: 2, Failed: 3}, succeeded: "a", failed: "c", removing: "ac", listed: "3 4 b", ended: "b", counted: "4 4"},
		"failing job":            {pods: ":S :F :R", finished: failed, listed: "0 0 a bc", ended: "a b c", counted: "1 2"},
		"completing job":         {pods: ":S :F", finished: &batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet}, listed: "0 0 a b", ended: "a b", counted: "1 1"},
		"succeeding by policy":   {pods: "0:S 1:R", completions: 2, finished: &batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet}, listed: "1 0", ended: "a b", counted: "1 0"},
		"deleted job":            {pods: ":S :F :R", deleted: true, listed: "0 0 a b", ended: "a b c", counted: "1 1"},
		"errors":                 {pods: ":S :F", listed: "0 0 a b", ended: "a b", kept: "ab", counted: "0 0 a b"},
		"partial success":        {pods: ":S :S :F :F", listed: "0 0 ab cd", ended: "a b c d", kept: "bc", counted: "1 1 b c"},
		"indexed, new successes": {pods: "1:S 3:S 3:S 5:S 0:F 3:F :S 9:S", completions: 6, listed: "3 0  ef", ended: "g e a b c f d h", counted: "3 2"},
		"indexed, beyond the completions": {
			pods: "", before: batchv1.JobStatus{Succeeded: 2, CompletedIndexes: "3,5"}, completions: 5, listed: "1 0", counted: "1 0",
		},
		"indexed, past and new": {
			pods: "0:S 1:S 3:F 4:F", before: batchv1.JobStatus{Succeeded: 1, Failed: 4, CompletedIndexes: "0,2,5"},
			failed: "cx", completions: 7, listed: "4 5  cd", ended: "a b c d", counted: "4 7",
		},
		"from failed to succeeded": {pods: ":S :S", failed: "ab", listed: "0 0  ab", ended: "a b", counted: "0 2"},
	} {
		j := &batchv1.Job{Status: test.before}
		j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: uids(test.succeeded), Failed: uids(test.failed)}
		if test.completions > 0 {
			j.Spec.CompletionMode, j.Spec.Completions = ptr.To(batchv1.IndexedCompletion), &test.completions
		}
		if test.deleted {
			j.DeletionTimestamp = ptr.To(metav1.NewTime(noon))
		}
		s := newState(j, parsePods(test.pods), setOf(uids(test.removing)), noon)
		s.observe(backoff{})
		s.finished = test.finished
		tracked := s.tracked()
		count(&s.job.Status, tracked)
		pods, more := s.writeEnded()
		if got := listed(&s.job.Status); got != test.listed || namesOf(pods) != test.ended || more {
			t.Errorf("%s: listed %q, ended %q, want %q, %q", name, got, namesOf(pods), test.listed, test.ended)
		}
		for _, pod := range pods {
			if !strings.Contains(test.kept, pod.Name) {
				delete(tracked, pod.UID)
			}
		}
		count(&s.job.Status, tracked)
		if got := listed(&s.job.Status); got != test.counted {
			t.Errorf("%s: counted %q, want %q", name, got, test.counted)
		}
	}
}

// TestCountMany: one sync counts so many pods, no more.
func TestCountMany(t *testing.T) {
	pods := parsePods(":S" + strings.Repeat(" :S", uncountedMax+9))
	for i, pod := range pods {
		pod.Name, pod.UID = fmt.Sprint(i), types.UID(fmt.Sprint(i))
	}
	s := newState(&batchv1.Job{}, pods, nil, noon)
	s.observe(backoff{})
	ended, more := s.writeEnded()
	if len(ended) != uncountedMax || !more || len(s.job.Status.UncountedTerminatedPods.Succeeded) != uncountedMax {
		t.Errorf("%d pods, more %v", len(ended), more)
	}
}

func TestSetCondition(t *testing.T) {
	const (
		yes = corev1.ConditionTrue
		no  = corev1.ConditionFalse
	)
	suspended := func(status corev1.ConditionStatus, reason string) batchv1.JobCondition {
		return batchv1.JobCondition{Type: batchv1.JobSuspended, Status: status, Reason: reason}
	}
	for name, test := range map[string]struct {
		has     []batchv1.JobCondition
		status  corev1.ConditionStatus
		reason  string
		want    string
		changes bool
	}{
		"append true condition":          {nil, yes, "foo", "True foo", true},
		"append false condition":         {nil, no, "foo", "", false},
		"update true condition reason":   {[]batchv1.JobCondition{suspended(yes, "foo")}, yes, "bar", "True bar", true},
		"update true condition status":   {[]batchv1.JobCondition{suspended(yes, "foo")}, no, "foo", "False foo", true},
		"update false condition status":  {[]batchv1.JobCondition{suspended(no, "foo")}, yes, "foo", "True foo", true},
		"condition already exists":       {[]batchv1.JobCondition{suspended(yes, "foo")}, yes, "foo", "True foo", false},
		"another condition is untouched": {[]batchv1.JobCondition{{Type: batchv1.JobFailed, Status: no}}, yes, "foo", "False  True foo", true},
	} {
		s := newState(&batchv1.Job{Status: batchv1.JobStatus{Conditions: test.has}}, nil, nil, noon)
		changes := s.setCondition(batchv1.JobSuspended, test.status, test.reason, "")
		var got []string
		for _, c := range s.job.Status.Conditions {
			got = append(got, string(c.Status)+" "+c.Reason)
		}
		if text := strings.Join(got, " "); text != test.want || changes != test.changes {
			t.Errorf("%s: %q, changes %v; want %q, %v", name, text, changes, test.want, test.changes)
		}
	}
}

// TestRestarts: restarts of the containers of pods with policy OnFailure count towards the limit.
func TestRestarts(t *testing.T) {
	for name, test := range map[string]struct {
		limit    int32
		phase    corev1.PodPhase
		restarts []int32 // of pods with one container each
		fails    bool
	}{
		"backoffLimit 0":                       {0, corev1.PodRunning, []int32{0}, false},
		"backoffLimit 0, restarted":            {0, corev1.PodRunning, []int32{1}, true},
		"backoffLimit 1":                       {1, corev1.PodRunning, []int32{0}, false},
		"backoffLimit 1, running":              {1, corev1.PodRunning, []int32{1}, true},
		"backoffLimit 1, pending":              {1, corev1.PodPending, []int32{1}, true},
		"too many failures, single pod":        {5, corev1.PodRunning, []int32{5}, true},
		"too many failures, multiple pods":     {5, corev1.PodRunning, []int32{2, 3}, true},
		"too many failures, multiple, pending": {5, corev1.PodPending, []int32{2, 3}, true},
		"not enough failures":                  {5, corev1.PodRunning, []int32{1, 1}, false},
		"pods that have ended":                 {1, corev1.PodSucceeded, []int32{9}, false},
	} {
		for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever} {
			j := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: &test.limit}}
			j.Spec.Template.Spec.RestartPolicy = policy
			s := newState(j, parsePods(strings.Repeat(" :R", len(test.restarts))), nil, noon)
			for i, n := range test.restarts {
				s.pods[i].Status.Phase = test.phase
				s.pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: n}}
			}
			s.observe(backoff{})
			if got, want := s.overLimit() != nil, test.fails && policy == corev1.RestartPolicyOnFailure; got != want {
				t.Errorf("%s, %s: fails %v", name, policy, got)
			}
		}
	}
}
