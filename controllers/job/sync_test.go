package job_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// addPods creates pods of the job from words: PHASE or INDEX:PHASE. The phases are P, R, a running pod that is
// ready (r), S, F, and a running pod that is being deleted (T).
func (w *world) addPods(j *batchv1.Job, text string) {
	w.Helper()
	pods := w.User.CoreV1().Pods("default")
	for i, word := range strings.Fields(text) {
		index, phase, indexed := strings.Cut(word, ":")
		if !indexed {
			phase = index
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pi-%d", i), Labels: j.Spec.Template.Labels, Finalizers: []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		}, Spec: j.Spec.Template.Spec}
		if indexed {
			pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: index}
		}
		pod = testcheck.Must(pods.Create(ctx, pod, metav1.CreateOptions{}))
		now := metav1.NewTime(w.Host.Now())
		switch phase {
		case "R", "T":
			pod.Status.Phase = corev1.PodRunning
		case "r":
			testworld.MakeReady(pod, now)
		case "S":
			end(pod, 0, now)
		case "F":
			end(pod, 1, now)
		}
		testcheck.Must(pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
		if phase == "T" {
			w.NoError(pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}))
		}
	}
}

// TestSync: what a controller does with pods that it finds, if nothing else acts. A status is as in
// world.status.
func TestSync(t *testing.T) {
	replaces := func(policy batchv1.PodReplacementPolicy) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = &policy }
	}
	conditions := func(j *batchv1.Job) {
		for _, of := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: of, Status: corev1.ConditionFalse})
		}
	}
	for name, test := range map[string]struct {
		job     *batchv1.Job
		pods    string
		want    string
		created int
	}{
		"job start":                                 {newJob(size(2, 5)), "", "2 0 0: 0 0", 2},
		"WQ job start":                              {newJob(size(2, -1)), "", "2 0 0: 0 0", 2},
		"pending pods":                              {newJob(size(2, 5)), "P P", "2 0 0: 0 0", 0},
		"correct # of pods":                         {newJob(size(3, 5)), "R r r", "3 2 0: 0 0", 0},
		"WQ job: correct # of pods":                 {newJob(size(2, -1)), "R R", "2 0 0: 0 0", 0},
		"too few active pods":                       {newJob(size(2, 5)), "R S", "2 0 0: 1 0", 1},
		"WQ job: replace failed pods":               {newJob(size(1, -1), replaces(batchv1.Failed)), "R F T", "1 0 1: 0 1", 0},
		"WQ job: policy not set":                    {newJob(size(1, -1)), "R F T", "1 0 1: 0 2", 0},
		"WQ job: replace terminating or failed":     {newJob(size(1, -1), replaces(batchv1.TerminatingOrFailed)), "R F T", "1 0 1: 0 2", 0},
		"more terminating pods than parallelism":    {newJob(size(1, 1), replaces(batchv1.Failed)), "R R T T T T", "1 0 5: 0 0", 0},
		"the same with a failure policy":            {newJob(size(1, 1), onFailure(exits(batchv1.PodFailurePolicyActionIgnore, 99))), "R R T T T T", "1 0 5: 0 0", 0},
		"too few active pods with a dynamic job":    {newJob(size(2, -1)), "R", "2 0 0: 0 0", 1},
		"too many active pods":                      {newJob(size(2, 5)), "R R R", "2 0 1: 0 0", 0},
		"count ready pods when too many are active": {newJob(size(2, 5)), "r r r", "2 2 1: 0 0", 0},
		"failed + succeed pods":                     {newJob(size(2, 5)), "R S F", "2 0 0: 1 1", 1},
		"new failed pod":                            {newJob(size(2, 5)), "R F", "2 0 0: 0 1", 1},
		"job finish":                                {newJob(size(2, 5)), "S S S S S", "0 0 0: 5 0 SuccessCriteriaMet Complete", 0},
		"WQ job finishing":                          {newJob(size(2, -1)), "R S", "1 0 0: 1 0", 0},
		"WQ job all finished":                       {newJob(size(2, -1)), "S S", "0 0 0: 2 0 SuccessCriteriaMet Complete", 0},
		"WQ job all finished despite one failure":   {newJob(size(2, -1)), "S F", "0 0 0: 1 1 SuccessCriteriaMet Complete", 0},
		"more active pods than parallelism":         {newJob(size(2, 5)), "R R R R R R R R R R", "2 0 8: 0 0", 0},
		"more than remaining completions":           {newJob(size(3, 4)), "R R R S S", "2 0 1: 2 0", 0},
		"status change":                             {newJob(size(2, 5)), "R R S S", "2 0 0: 2 0", 0},
		"too many job failures":                     {newJob(size(2, 5), limit(0)), "F", "0 0 0: 0 1 FailureTarget Failed", 0},
		"count ready pods when job fails":           {newJob(size(2, 3), limit(0)), "r r F", "0 0 2: 0 3 FailureTarget", 0},
		"indexed job start":                         {newJob(size(2, 5), indexed), "", "2 0 0: 0 0", 2},
		"indexed job, a pod is deleted, Failed":     {newJob(size(2, 5), indexed, replaces(batchv1.Failed)), "1:T", "1 0 1: 0 0", 1},
		"indexed job, a pod is deleted":             {newJob(size(2, 5), indexed, replaces(batchv1.TerminatingOrFailed)), "1:T", "2 0 1: 0 1", 2},
		"indexed job completed":                     {newJob(size(2, 3), indexed), "0:S 1:F 1:S 2:S", "0 0 0: 3 1 done 0-2 SuccessCriteriaMet Complete", 0},
		"indexed job failed":                        {newJob(size(2, 3), indexed, limit(0)), "0:S 1:F 2:R", "0 0 1: 1 2 done 0 FailureTarget", 0},
		"indexed job repeated completed index":      {newJob(size(2, 3), indexed), "0:S 1:S 1:S", "1 0 0: 2 0 done 0,1", 1},
		"indexed job some running and completed": {
			newJob(size(8, 20), indexed), "0:R 2:S 3:P 4:S 5:S 7:S 8:S 9:S", "8 0 0: 6 0 done 2,4,5,7-9", 6,
		},
		"indexed job some failed pods": {newJob(size(3, 4), indexed), "0:F 1:P 2:F", "3 0 0: 0 2", 2},
		"indexed job some pods without index": {
			newJob(size(2, 5), indexed), "R S F x:R x:S x:F x:P 0:S 1:R 2:R", "2 0 3: 1 0 done 0", 0,
		},
		"indexed job repeated indexes":              {newJob(size(5, 5), indexed), "S F x:R 0:S 1:R 2:R 2:P", "4 0 2: 1 0 done 0", 2},
		"indexed job with indexes outside of range": {newJob(size(2, 5), indexed), "0:S 5:R 6:S 7:P 8:F", "2 0 2: 1 0 done 0", 2},
		"suspended":                 {newJob(size(2, 4), suspend(true)), "r R", "0 0 2: 0 0 Suspended", 0},
		"conditions that are False": {newJob(size(1, 1), conditions), "r", "1 1 0: 0 0", 0},
		"a pod that is being deleted, the job fails": {newJob(size(2, 2), limit(0)), "F T", "0 0 1: 0 2 FailureTarget", 0},
		"a pod that is being deleted, the job ends":  {newJob(size(2, 1)), "S T", "0 0 1: 1 1 SuccessCriteriaMet", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 20_000}), deaf: map[string]bool{}}
			j := testcheck.Must(w.User.BatchV1().Jobs("default").Create(ctx, test.job.DeepCopy(), metav1.CreateOptions{}))
			if j.Status = test.job.Status; len(j.Status.Conditions) > 0 {
				j.Status.StartTime = ptr.To(metav1.NewTime(w.Host.Now()))
				j = testcheck.Must(w.User.BatchV1().Jobs("default").UpdateStatus(ctx, j, metav1.UpdateOptions{}))
			}
			w.addPods(j, test.pods)
			w.controller = w.Host.Process("job")
			w.start()
			w.want(test.want, "found")
			if got := len(w.requests("create", "pods")); got != test.created {
				t.Errorf("%d pods created, want %d", got, test.created)
			}
		})
	}
}
