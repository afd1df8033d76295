package job_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/job"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

func succeeds(*corev1.Pod) int32 { return 0 }

func fails(*corev1.Pod) int32 { return 1 }

// byIndex returns results of pods by their index; others run.
func byIndex(codes map[string]int32) func(*corev1.Pod) int32 {
	return func(pod *corev1.Pod) int32 {
		if code, ok := codes[pod.Annotations[batchv1.JobCompletionIndexAnnotation]]; ok {
			return code
		}
		return runs
	}
}

// TestLife: a job runs as many pods as it needs, and is complete when enough have succeeded.
func TestLife(t *testing.T) {
	for name, test := range map[string]struct {
		job      *batchv1.Job
		running  string
		complete string
		pods     int
	}{
		"one pod":            {newJob(), "1 1 0: 0 0", "0 0 0: 1 0 SuccessCriteriaMet Complete", 1},
		"five, two at once":  {newJob(size(2, 5)), "2 2 0: 0 0", "0 0 0: 5 0 SuccessCriteriaMet Complete", 5},
		"five at once":       {newJob(size(9, 5)), "5 5 0: 0 0", "0 0 0: 5 0 SuccessCriteriaMet Complete", 5},
		"none":               {newJob(size(1, 0)), "0 0 0: 0 0 SuccessCriteriaMet Complete", "0 0 0: 0 0 SuccessCriteriaMet Complete", 0},
		"queue of three":     {newJob(size(3, -1)), "3 3 0: 0 0", "0 0 0: 3 0 SuccessCriteriaMet Complete", 3},
		"indexed":            {newJob(size(2, 3), indexed), "2 2 0: 0 0", "0 0 0: 3 0 done 0-2 SuccessCriteriaMet Complete", 3},
		"indexed with limit": {newJob(size(2, 3), limitPerIndex(1)), "2 2 0: 0 0", "0 0 0: 3 0 done 0-2 SuccessCriteriaMet Complete", 3},
		"parallelism 0":      {newJob(size(0, 2)), "0 0 0: 0 0", "0 0 0: 0 0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				w := newWorld(t, sim.NewSeeded(seed))
				w.create(test.job.DeepCopy())
				w.want(test.running, "created")
				w.result = succeeds
				for i, pod := range w.pods() {
					if !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) || pod.Labels[batchv1.JobNameLabel] != "pi" {
						t.Fatalf("pod %+v", pod.ObjectMeta)
					}
					w.endPod(i, 0)
				}
				w.want(test.complete, "ended")
				if got := len(w.pods()); got != test.pods {
					t.Fatalf("%d pods, want %d", got, test.pods)
				}
				for _, pod := range w.pods() {
					if len(pod.Finalizers) > 0 {
						t.Fatalf("pod %s has finalizers %q", pod.Name, pod.Finalizers)
					}
				}
			}
		})
	}
}

// TestEvents: what the controller reports.
func TestEvents(t *testing.T) {
	for name, test := range map[string]struct {
		job  *batchv1.Job
		run  func(w *world)
		want []string
	}{
		"complete": {newJob(), func(w *world) { w.result = succeeds }, []string{
			"Normal Completed Job completed", "Normal SuccessfulCreate Created pod: *",
		}},
		"failed": {newJob(limit(0)), func(w *world) { w.result = fails }, []string{
			"Normal SuccessfulCreate Created pod: *", "Warning BackoffLimitExceeded Job has reached the specified backoff limit",
		}},
		"suspended": {newJob(), func(w *world) {
			w.Run()
			w.edit(suspend(true))
			w.Run()
			w.edit(suspend(false))
		}, []string{
			"Normal Resumed Job resumed", "Normal SuccessfulCreate Created pod: *", "Normal SuccessfulDelete Deleted pod: *",
			"Normal Suspended Job suspended",
		}},
		"creation fails": {newJob(), func(w *world) {
			failures := 0
			w.fail = func(a trace.Action) error {
				if failures++; a.Verb != "create" || !strings.HasPrefix(a.Object, "pods/") || failures > 3 {
					return nil
				}
				return errors.New("no")
			}
		}, []string{"Normal SuccessfulCreate Created pod: *", "Warning FailedCreate Error creating: no"}},
		"too many": {newJob(size(2, 1)), func(w *world) {
			w.Run()
			w.deaf[w.pods()[0].Name] = true
			pod := w.pods()[0]
			second := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "second", Labels: pod.Labels}, Spec: pod.Spec}
			testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, second, metav1.CreateOptions{}))
			w.endPod(0, 0)
			for i := range w.pods() {
				w.endPod(i, 0)
			}
		}, []string{
			"Normal Completed Job completed", "Normal SuccessfulCreate Created pod: *",
			"Warning TooManySucceededPods Too many succeeded pods running after completion count reached",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.create(test.job)
			test.run(w)
			w.Run()
			if diff := cmp.Diff(test.want, w.messages()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFailures: a pod that failed is replaced after a delay that doubles, until there were too many
// failures. A success resets the delay.
func TestFailures(t *testing.T) {
	w := newWorld(t, nil)
	w.result = fails
	w.create(newJob(limit(3)))
	w.want("0 0 0: 0 4 FailureTarget Failed", "over the limit")
	var delays []time.Duration
	pods := w.pods()
	for i := range pods[1:] {
		delays = append(delays, pods[i+1].CreationTimestamp.Sub(pods[i].CreationTimestamp.Time))
	}
	if want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second}; !slices.Equal(delays, want) {
		t.Errorf("delays %v, want %v", delays, want)
	}

	w = newWorld(t, nil)
	w.create(newJob(size(1, 2)))
	for _, code := range []int32{1, 1, 0} {
		w.Run()
		w.endPod(w.active(), code)
	}
	w.Run()
	created := w.pods()[w.active()].CreationTimestamp
	w.endPod(w.active(), 1)
	w.want("1 1 0: 1 3", "a failure after a success")
	if got := w.pods()[w.active()].CreationTimestamp.Sub(created.Time); got != 10*time.Second {
		t.Errorf("delay %v after a success", got)
	}
}

// TestLimits: how jobs end because of failures and time.
func TestLimits(t *testing.T) {
	restarts := func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }
	for name, test := range map[string]struct {
		job    *batchv1.Job
		result func(*corev1.Pod) int32
		want   string
		reason string
	}{
		"back-off limit 0": {newJob(limit(0), size(2, 4)), fails, "0 0 0: 0 2 FailureTarget Failed", "BackoffLimitExceeded"},
		"deadline":         {newJob(deadline(100)), nil, "0 0 0: 0 1 FailureTarget Failed", "DeadlineExceeded"},
		"deadline of an indexed job": {
			newJob(deadline(100), indexed, size(3, 3)), byIndex(map[string]int32{"1": 0}),
			"0 0 0: 1 2 done 1 FailureTarget Failed", "DeadlineExceeded",
		},
		"success before the deadline": {newJob(deadline(100)), succeeds, "0 0 0: 1 0 SuccessCriteriaMet Complete", "CompletionsReached"},
		"failure policy": {
			newJob(size(3, 3), indexed, onFailure(exits(batchv1.PodFailurePolicyActionFailJob, 42))), byIndex(map[string]int32{"1": 42}),
			"0 0 0: 0 3 FailureTarget Failed", "PodFailurePolicy",
		},
		"restarts": {newJob(restarts), fails, "0 0 0: 0 7 FailureTarget Failed", "BackoffLimitExceeded"},
		"every index has its limit": {
			newJob(size(2, 2), limitPerIndex(1)), byIndex(map[string]int32{"0": 1, "1": 0}),
			"0 0 0: 1 2 done 1 lost 0 FailureTarget Failed", "FailedIndexes",
		},
		"too many indexes": {
			newJob(size(4, 4), limitPerIndex(0), func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = ptr.To[int32](1) }),
			byIndex(map[string]int32{"0": 1, "2": 1}), "0 0 0: 0 4 lost 0,2 FailureTarget Failed", "MaxFailedIndexesExceeded",
		},
		"an index fails at once": {
			newJob(size(2, 2), limitPerIndex(5), onFailure(exits(batchv1.PodFailurePolicyActionFailIndex, 42))),
			byIndex(map[string]int32{"0": 42, "1": 0}), "0 0 0: 1 1 done 1 lost 0 FailureTarget Failed", "FailedIndexes",
		},
		"success policy": {
			newJob(size(4, 4), indexed, func(j *batchv1.Job) {
				j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{
					{SucceededIndexes: ptr.To("3")}, {SucceededIndexes: ptr.To("0-2"), SucceededCount: ptr.To[int32](2)},
				}}
			}), byIndex(map[string]int32{"0": 0, "2": 0}), "0 0 0: 2 0 done 0,2 SuccessCriteriaMet Complete", "SuccessPolicy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				w := newWorld(t, sim.NewSeeded(seed))
				if test.result != nil {
					w.result = test.result
				}
				w.create(test.job.DeepCopy())
				w.want(test.want, "ended")
				conditions := w.job().Status.Conditions
				if got := conditions[len(conditions)-1].Reason; got != test.reason {
					t.Fatalf("reason %s, want %s", got, test.reason)
				}
				for _, pod := range w.pods() {
					if len(pod.Finalizers) > 0 {
						t.Fatalf("pod %s has finalizers", pod.Name)
					}
				}
			}
		})
	}
}

// TestFailurePolicy: ignored failures do not count, and the message names the rule.
func TestFailurePolicy(t *testing.T) {
	w := newWorld(t, nil)
	disrupted := batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
	}}
	w.create(newJob(limit(0), onFailure(
		exits(batchv1.PodFailurePolicyActionIgnore, 5), disrupted, exits(batchv1.PodFailurePolicyActionFailJob, 42),
	)))
	w.Run()
	w.endPod(0, 5)
	w.want("1 1 0: 0 0", "an exit code is ignored")
	pod := w.pods()[1]
	end(pod, 143, metav1.NewTime(w.Host.Now()))
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
	testcheck.Must(w.User.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
	w.want("1 1 0: 0 0", "a condition is ignored")
	name := w.pods()[2].Name
	w.endPod(2, 42)
	w.want("0 0 0: 0 1 FailureTarget Failed", "the job fails")
	want := "Container main for pod default/" + name + " failed with exit code 42 matching FailJob rule at index 2"
	if got := w.job().Status.Conditions[1].Message; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

// TestIndexes: what the pods of an indexed job have.
func TestIndexes(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newJob(size(2, 5), limitPerIndex(2)))
	w.Run()
	for i, pod := range w.pods() {
		if host := fmt.Sprintf("pi-%d", i); pod.Spec.Hostname != host || !strings.HasPrefix(pod.Name, host+"-") ||
			pod.Labels[batchv1.JobCompletionIndexAnnotation] != fmt.Sprint(i) ||
			pod.Annotations[batchv1.JobIndexFailureCountAnnotation] != "0" {
			t.Errorf("pod %+v of host %s", pod.ObjectMeta, pod.Spec.Hostname)
		}
		env := pod.Spec.Containers[0].Env
		if len(env) != 1 || env[0].Name != "JOB_COMPLETION_INDEX" ||
			env[0].ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']" {
			t.Errorf("environment %+v", env)
		}
	}
	created := w.pods()[0].CreationTimestamp
	w.endPod(0, 1)
	w.want("2 2 0: 0 1", "index 0 is retried")
	retried := w.pods()[1]
	if retried.Annotations[batchv1.JobIndexFailureCountAnnotation] != "1" || retried.Spec.Hostname != "pi-0" {
		t.Errorf("pod %+v", retried.ObjectMeta)
	}
	if got := retried.CreationTimestamp.Sub(created.Time); got != 10*time.Second {
		t.Errorf("index 0 is retried after %v", got)
	}
}

// TestSuspend: a suspended job has no pods, and starts its time again when it is resumed.
func TestSuspend(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newJob(size(2, 4), suspend(true), deadline(50)))
		w.want("0 0 0: 0 0 Suspended", "created")
		if w.job().Status.StartTime != nil {
			t.Fatal("it has started")
		}
		w.edit(suspend(false))
		w.Until("the pods to run", func() bool { return w.status() == "2 2 0: 0 0" })
		w.endPod(0, 0)
		w.Until("the next pod", func() bool { return w.status() == "2 2 0: 1 0" })
		w.edit(suspend(true))
		w.want("0 0 0: 1 0 Suspended", "suspended")
		w.pass(time.Hour)
		w.edit(suspend(false))
		w.Until("the pods to run again", func() bool { return w.status() == "2 2 0: 1 0" })
		if got := w.Host.Now().Sub(w.job().Status.StartTime.Time); got > 10*time.Second {
			t.Fatalf("it has run for %v", got)
		}
		w.want("0 0 0: 1 2 FailureTarget Failed", "the deadline after it was resumed")
	}
}

// TestScale: fewer and more pods at once; an indexed job also has other completions.
func TestScale(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newJob(size(5, 10)))
	w.want("5 5 0: 0 0", "created")
	w.edit(size(2, 10))
	w.want("2 2 0: 0 0", "fewer")
	w.edit(size(4, 10))
	w.want("4 4 0: 0 0", "more")

	w = newWorld(t, nil)
	w.result = byIndex(map[string]int32{"0": 0, "4": 0})
	w.create(newJob(size(5, 5), indexed))
	w.want("3 3 0: 2 0 done 0,4", "indexed")
	w.edit(size(3, 3))
	w.want("2 2 0: 1 0 done 0", "fewer indexes")
	w.edit(size(4, 4))
	w.want("3 3 0: 1 0 done 0", "more indexes")
}

// TestDeletedPod: a pod that is deleted counts as failed, and is replaced at once or when it has ended.
func TestDeletedPod(t *testing.T) {
	for policy, test := range map[batchv1.PodReplacementPolicy][2]string{
		batchv1.TerminatingOrFailed: {"1 1 1: 0 1", "1 1 0: 0 1"}, batchv1.Failed: {"0 0 1: 0 0", "1 1 0: 0 1"},
	} {
		w := newWorld(t, nil)
		w.create(newJob(func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = &policy }))
		w.Run()
		pod := w.pods()[0]
		w.deaf[pod.Name] = true
		w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{}))
		w.want(test[0], string(policy)+": deleted")
		w.deaf = map[string]bool{}
		w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
		if policy == batchv1.Failed {
			end(pod, 143, metav1.NewTime(w.Host.Now()))
			pod.ResourceVersion = ""
			testcheck.Must(w.User.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
		}
		w.want(test[1], string(policy)+": gone")
	}
}

// TestPodEndsWhileItIsRemoved: a pod that has succeeded before it is removed is counted.
func TestPodEndsWhileItIsRemoved(t *testing.T) {
	w := newWorld(t, nil)
	w.ActImmediately()
	w.create(newJob(size(2, 4)))
	w.Run()
	ended := false
	w.fail = func(a trace.Action) error {
		if a.Verb == "patch" && !ended {
			ended = true
			for i := range w.pods() {
				w.endPod(i, 0)
			}
		}
		return nil
	}
	w.edit(size(1, 4))
	w.want("1 1 0: 2 0", "smaller")
}

// TestCrashWhileAPodIsRemoved: a pod that has lost its finalizer and runs on is counted.
func TestCrashWhileAPodIsRemoved(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newJob(size(2, 2)))
	w.Run()
	w.edit(suspend(true))
	w.Until("a pod without finalizer", func() bool {
		return slices.ContainsFunc(w.pods(), func(pod *corev1.Pod) bool { return len(pod.Finalizers) == 0 })
	})
	w.edit(suspend(false))
	w.crash()
	w.want("2 2 0: 0 0", "resumed")
	w.result = succeeds
	for i := range w.pods() {
		w.endPod(i, 0)
	}
	w.want("0 0 0: 2 0 SuccessCriteriaMet Complete", "ended")
	if got := len(w.pods()); got != 2 {
		t.Errorf("%d pods", got)
	}
}

// TestLostAnswer: a pod that was created although the request failed is not created again.
func TestLostAnswer(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newJob(size(3, 3)))
		created := 0
		w.lose = func(a trace.Action) bool {
			if a.Verb != "create" || !strings.HasPrefix(a.Object, "pods/") {
				return false
			}
			created++
			return created == 3
		}
		w.want("3 3 0: 0 0", "created")
		if got := len(w.pods()); got != 3 || created != 3 {
			t.Fatalf("seed %d: %d pods, %d created", seed, got, created)
		}
	}
}

// TestManagedElsewhere: a job of another controller is left alone.
func TestManagedElsewhere(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") }))
	w.Run()
	if len(w.pods()) > 0 || w.job().Status.StartTime != nil {
		t.Errorf("%d pods, status %+v", len(w.pods()), w.job().Status)
	}
}

// TestOrphans: a job adopts the orphans that it selects, with the finalizer, and releases others.
func TestOrphans(t *testing.T) {
	w := newWorld(t, nil)
	labels := map[string]string{"app": "web"}
	spec := newJob().Spec.Template.Spec
	testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "first", Labels: labels}, Spec: spec}, metav1.CreateOptions{}))
	w.create(newJob(func(j *batchv1.Job) {
		j.Spec.ManualSelector, j.Spec.Selector = ptr.To(true), &metav1.LabelSelector{MatchLabels: labels}
		j.Spec.Template.Labels = labels
	}))
	w.want("1 1 0: 0 0", "adopted")
	pod := w.pods()[0]
	if pod.Name != "first" || !metav1.IsControlledBy(pod, w.job()) || !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		t.Fatalf("pod %+v", pod.ObjectMeta)
	}
	pod.Labels = map[string]string{"app": "other"}
	testcheck.Must(w.User.CoreV1().Pods("default").Update(ctx, pod, metav1.UpdateOptions{}))
	w.want("1 1 0: 0 0", "released")
	pod = testcheck.Must(w.User.CoreV1().Pods("default").Get(ctx, "first", metav1.GetOptions{}))
	if len(pod.OwnerReferences)+len(pod.Finalizers) > 0 || len(w.pods()) != 2 {
		t.Errorf("pod %+v, %d pods", pod.ObjectMeta, len(w.pods()))
	}
}

// TestDeletedJob: the pods of a deleted job lose their finalizers, and go with it unless they are
// orphaned.
func TestDeletedJob(t *testing.T) {
	for policy, left := range map[metav1.DeletionPropagation]int{
		metav1.DeletePropagationBackground: 0, metav1.DeletePropagationForeground: 0, metav1.DeletePropagationOrphan: 2,
	} {
		for seed := range uint64(10) {
			w := newWorld(t, sim.NewSeeded(seed))
			w.create(newJob(size(2, 2)))
			w.want("2 2 0: 0 0", "created")
			w.deleteJob(policy)
			w.Run()
			if got := len(w.Server.List("jobs")); got > 0 || len(w.pods()) != left {
				t.Fatalf("%s: %d jobs, %d pods", policy, got, len(w.pods()))
			}
			for _, pod := range w.pods() {
				if len(pod.Finalizers) > 0 {
					t.Fatalf("%s: pod %s has finalizers %q", policy, pod.Name, pod.Finalizers)
				}
			}
		}
	}
}

// watch checks each write of the job from now on: numbers do not fall, and no pod is counted twice.
func (w *world) watch() {
	last, counted := batchv1.JobStatus{}, map[types.UID]bool{}
	uids := func(s *batchv1.JobStatus) []types.UID {
		if s.UncountedTerminatedPods == nil {
			return nil
		}
		return slices.Concat(s.UncountedTerminatedPods.Succeeded, s.UncountedTerminatedPods.Failed)
	}
	w.Server.OnCommit(func(made fake.Commit) {
		if made.Resource != "jobs" || made.Type == watch.Deleted {
			return
		}
		s := made.After.(*batchv1.Job).Status
		if s.Succeeded < last.Succeeded || s.Failed < last.Failed {
			w.Errorf("counters fall: %+v to %+v", last, s)
		}
		listed := uids(&s)
		for _, uid := range uids(&last) {
			counted[uid] = !slices.Contains(listed, uid)
		}
		for _, uid := range listed {
			if counted[uid] {
				w.Errorf("pod %s is counted, and listed again", uid)
			}
		}
		last = *s.DeepCopy()
	})
}

// TestCrashAnywhere: after a crash at any write, each pod is counted once.
func TestCrashAnywhere(t *testing.T) {
	for name, test := range map[string]struct {
		job  *batchv1.Job
		want []string
	}{
		"not indexed": {newJob(size(2, 3)), []string{"0 0 0: 3 2 SuccessCriteriaMet Complete"}},
		"indexed":     {newJob(size(2, 3), indexed), []string{"0 0 0: 3 2 done 0-2 SuccessCriteriaMet Complete"}},
		"per index":   {newJob(size(2, 3), limitPerIndex(3)), []string{"0 0 0: 3 2 done 0-2 SuccessCriteriaMet Complete"}},
		// A crash loses the back-off: a pod may be replaced before the other one fails.
		"failed": {newJob(size(2, 3), limit(1)), []string{"0 0 0: 0 2 FailureTarget Failed", "0 0 0: 0 3 FailureTarget Failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			at, reached := 0, true
			for ; reached; at++ {
				reached = false
				w := newWorld(t, nil)
				w.watch()
				commits, pods := 0, map[string]int{}
				w.Server.OnCommit(func(fake.Commit) { commits++ })
				w.result = func(pod *corev1.Pod) int32 { // the first two fail
					if _, known := pods[pod.Name]; !known {
						pods[pod.Name] = len(pods)
					}
					if pods[pod.Name] < 2 {
						return 1
					}
					return 0
				}
				w.create(test.job.DeepCopy())
				for commits < at && w.Host.Step() {
				}
				if commits >= at {
					reached = true
					w.crash()
				}
				w.Run()
				if got := w.status(); !slices.Contains(test.want, got) {
					t.Fatalf("crash at write %d: %q, want one of %q", at, got, test.want)
				}
			}
			if at < 10 {
				t.Errorf("%d crashes", at)
			}
		})
	}
}

// TestFailedRequests: a request that fails is repeated, and each pod is counted once.
func TestFailedRequests(t *testing.T) {
	for _, request := range []string{"create pods", "patch pods", "delete pods", "update/status jobs"} {
		verb, resource, _ := strings.Cut(request, " ")
		failures := 0
		for at := range 4 {
			w := newWorld(t, nil)
			w.watch()
			n := 0
			w.fail = func(a trace.Action) error {
				if a.Verb != verb || !strings.HasPrefix(a.Object, resource+"/") {
					return nil
				}
				if n++; n-1 != at {
					return nil
				}
				failures++
				return apierrors.NewConflict(schema.GroupResource{Resource: resource}, "x", errors.New("no"))
			}
			w.create(newJob(size(2, 2)))
			w.Run()
			w.edit(size(1, 2))
			w.Run()
			w.result = succeeds
			w.endPod(0, 0)
			w.want("0 0 0: 2 0 SuccessCriteriaMet Complete", request)
		}
		if failures == 0 {
			t.Errorf("%s: no failure", request)
		}
	}
}

// TestStaleCache: the controller does not act on a cache without its own writes. With the switch it does,
// and still counts each pod once.
func TestStaleCache(t *testing.T) {
	for _, stale := range []bool{false, true} {
		conflicts := 0
		for seed := range uint64(40) {
			w := newWorld(t, sim.NewSeeded(seed), job.Config{ActOnStaleCaches: stale})
			w.watch()
			w.result = succeeds
			w.create(newJob(size(3, 6)))
			w.Run()
			pods := len(w.pods())
			if !stale && pods != 6 { // with stale caches there may be more
				t.Fatalf("%d pods", pods)
			}
			counted := pods
			if stale { // the job may be complete before its last pod ends
				counted = min(pods, int(w.job().Status.Succeeded))
			}
			w.has(fmt.Sprintf("0 0 0: %d 0 SuccessCriteriaMet Complete", counted), "complete")
			for _, r := range w.requests("update/status", "jobs") {
				if r.Err != nil {
					conflicts++
				}
			}
		}
		if stale != (conflicts > 0) {
			t.Errorf("act on stale caches %v: %d writes of the status failed", stale, conflicts)
		}
	}
}
