package jobdiff

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	act     = controllers.Act[*world]
	step    = controllers.Step[*world]
	restart = controllers.Restart[*world]
)

// A change is a change of the job's spec, in words.
type change struct {
	text   string
	change func(*batchv1.JobSpec)
}

func (c change) String() string { return c.text }

type createJob struct{ changes []change }

func (c createJob) String() string { return "create the job: " + histories.Join(c.changes) }

func (c createJob) Do(w *world) error {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "pi"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeName: "node", RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "image"}},
	}}}}
	for _, change := range c.changes {
		change.change(&j.Spec)
	}
	_, err := w.Client.BatchV1().Jobs("default").Create(ctx, j, metav1.CreateOptions{})
	return controllers.IgnoreMissing(err)
}

type editJob struct{ changes []change }

func (e editJob) String() string { return "edit the job: " + histories.Join(e.changes) }

func (e editJob) Do(w *world) error {
	j, ok := histories.Stored[*batchv1.Job](w.Server, "jobs", "default", "pi")
	if !ok {
		return nil
	}
	for _, change := range e.changes {
		change.change(&j.Spec)
	}
	_, err := w.Client.BatchV1().Jobs("default").Update(ctx, j, metav1.UpdateOptions{})
	return controllers.IgnoreMissing(err)
}

type deleteJob struct{}

func (deleteJob) String() string { return "delete the job" }

func (deleteJob) Do(w *world) error {
	how := metav1.DeletePropagationBackground
	return controllers.IgnoreMissing(w.Client.BatchV1().Jobs("default").Delete(ctx, "pi", metav1.DeleteOptions{PropagationPolicy: &how}))
}

// endPods ends one running pod, or all that run, with a code.
type endPods struct {
	n    int
	all  bool
	code int32
}

func (e endPods) String() string {
	if e.all {
		return fmt.Sprintf("all pods end with %d", e.code)
	}
	return fmt.Sprintf("pod %d ends with %d", e.n, e.code)
}

func (e endPods) Do(w *world) error {
	var running []*corev1.Pod
	for _, pod := range w.pods() {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			running = append(running, pod)
		}
	}
	for i, pod := range running {
		if !e.all && i != e.n%len(running) {
			continue
		}
		if err := w.end(pod, e.code); controllers.IgnoreMissing(err) != nil {
			return err
		}
	}
	return nil
}

// deletePod deletes a pod.
type deletePod struct{ n int }

func (d deletePod) String() string { return fmt.Sprintf("delete pod %d", d.n) }

func (d deletePod) Do(w *world) error {
	pods := w.pods()
	if len(pods) == 0 {
		return nil
	}
	return controllers.IgnoreMissing(w.Client.CoreV1().Pods("default").Delete(ctx, pods[d.n%len(pods)].Name, metav1.DeleteOptions{}))
}

var drawChange = rapid.Custom(func(t *rapid.T) change {
	switch histories.OneOf("parallelism", "parallelism", "suspend", "resume", "completions", "limit").Draw(t, "kind") {
	case "parallelism":
		n := rapid.Int32Range(0, 4).Draw(t, "parallelism")
		return change{fmt.Sprintf("parallelism %d", n), func(s *batchv1.JobSpec) { s.Parallelism = &n }}
	case "suspend":
		return change{"suspend", func(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) }}
	case "resume":
		return change{"resume", func(s *batchv1.JobSpec) { s.Suspend = ptr.To(false) }}
	case "completions":
		n := rapid.Int32Range(1, 5).Draw(t, "completions")
		return change{fmt.Sprintf("size %d", n), func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = &n, &n }}
	default:
		n := rapid.Int32Range(0, 3).Draw(t, "limit")
		return change{fmt.Sprintf("backoffLimit %d", n), func(s *batchv1.JobSpec) { s.BackoffLimit = &n }}
	}
})

var drawCreation = rapid.Custom(func(t *rapid.T) act {
	n, parallel := rapid.Int32Range(1, 4).Draw(t, "completions"), rapid.Int32Range(1, 4).Draw(t, "parallelism")
	c := createJob{[]change{{fmt.Sprintf("%d of %d", parallel, n), func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = &parallel, &n }}}}
	add := func(text string, f func(*batchv1.JobSpec)) { c.changes = append(c.changes, change{text, f}) }
	indexed := histories.OneIn(t, 2, "indexed")
	switch {
	case indexed:
		add("indexed", func(s *batchv1.JobSpec) { s.CompletionMode = ptr.To(batchv1.IndexedCompletion) })
		if histories.OneIn(t, 2, "per index") {
			k := rapid.Int32Range(0, 2).Draw(t, "limit per index")
			add(fmt.Sprintf("backoffLimitPerIndex %d", k), func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = &k })
			if histories.OneIn(t, 2, "max") {
				add("maxFailedIndexes 1", func(s *batchv1.JobSpec) { s.MaxFailedIndexes = ptr.To[int32](1) })
			}
		}
		if histories.OneIn(t, 3, "success policy") {
			add("succeededCount 1", func(s *batchv1.JobSpec) {
				s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To[int32](1)}}}
			})
		}
	case histories.OneIn(t, 3, "queue"):
		add("queue", func(s *batchv1.JobSpec) { s.Completions = nil })
	}
	if histories.OneIn(t, 3, "failure policy") {
		action := histories.OneOf(batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionCount).Draw(t, "action")
		add(fmt.Sprintf("42: %s", action), func(s *batchv1.JobSpec) {
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
				},
			}}}
		})
	} else if histories.OneIn(t, 3, "replacement policy") {
		add("replace Failed", func(s *batchv1.JobSpec) { s.PodReplacementPolicy = ptr.To(batchv1.Failed) })
	}
	if histories.OneIn(t, 5, "deadline") {
		add("deadline 333 s", func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](333) })
	}
	c.changes = append(c.changes, rapid.SliceOfN(drawChange, 0, 1).Draw(t, "changes")...)
	return c
})

var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch histories.OneOf("end", "end", "end", "end", "end", "edit", "edit", "delete pod", "delete", "create").Draw(t, "act") {
	case "end":
		return endPods{rapid.IntRange(0, 3).Draw(t, "pod"), histories.OneIn(t, 3, "all"), histories.OneOf[int32](0, 0, 1, 42).Draw(t, "code")}
	case "edit":
		return editJob{rapid.SliceOfN(drawChange, 1, 2).Draw(t, "changes")}
	case "delete pod":
		return deletePod{rapid.IntRange(0, 3).Draw(t, "pod")}
	case "delete":
		return deleteJob{}
	default:
		return drawCreation.Draw(t, "kind")
	}
})

var drawStep = rapid.Custom(func(t *rapid.T) step {
	s := step{Act: drawAct.Draw(t, "act")}
	if histories.OneIn(t, 10, "restart") {
		s.Act = restart{Meanwhile: s.Act}
	}
	if histories.OneIn(t, 10, "faulty") {
		s.Fault = histories.Fault{Kind: sim.FaultRefused, Request: histories.OneOf("create pods", "delete pods", "patch pods",
			"update/status jobs").Draw(t, "request")}
	}
	return s
})

// drawHistory draws a history. The job is created first.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	return append(history{{Act: drawCreation.Draw(t, "job")}}, histories.DrawSteps(t, drawStep, 6, 3)...)
})
