package cluster_test

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/sim"
)

// newJob returns the job "load", whose pods mount the claim "data" and exit with these codes.
func newJob(codes string, change ...func(*batchv1.JobSpec)) *batchv1.Job {
	spec := cluster.NewPod("", "data").Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "load"}, Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubelet.ExitCodesAnnotation: codes}}, Spec: spec,
		},
	}}
	for _, f := range change {
		f(&job.Spec)
	}
	return job
}

// TestJob: the pods of a job mount a claim one after the other, and are counted when they have ended.
func TestJob(t *testing.T) {
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"stepped", cluster.Config{Nodes: 2, Stepped: &sim.SteppedConfig{}}},
		{"live", cluster.Config{Nodes: 2, Devices: cluster.Array}},
	} {
		t.Run(world.name, func(t *testing.T) {
			ctx := t.Context()
			w := start(t, world.cfg)
			must(t)(w.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
			jobs := w.Client().BatchV1().Jobs("default")
			must(t)(jobs.Create(ctx, newJob("0", func(s *batchv1.JobSpec) { s.Completions = ptr.To[int32](2) }), metav1.CreateOptions{}))
			testcheck.NoError(t, w.WaitFor(ctx, "jobs", "default", "load", "condition=Complete"))
			job := testcheck.Must(jobs.Get(ctx, "load", metav1.GetOptions{}))
			if job.Status.Succeeded != 2 || job.Status.Failed != 0 {
				t.Errorf("status %+v", job.Status)
			}
			for _, obj := range w.Server().List("pods") {
				if pod := obj.(*corev1.Pod); pod.Status.Phase != corev1.PodSucceeded || len(pod.Finalizers) > 0 {
					t.Errorf("pod %s: %s, finalizers %q", pod.Name, pod.Status.Phase, pod.Finalizers)
				}
			}
			testcheck.NoError(t, jobs.Delete(ctx, "load", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}),
				w.WaitForGone(ctx, "jobs", "default", "load"), w.Wait(ctx, "no pods", func() bool { return len(w.Server().List("pods")) == 0 }))
		})
	}
}

// TestFailedJob: a job whose pods exit with an error fails at its limit.
func TestFailedJob(t *testing.T) {
	w := start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
	must(t)(w.Client().CoreV1().PersistentVolumeClaims("default").Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
	jobs := w.Client().BatchV1().Jobs("default")
	must(t)(jobs.Create(t.Context(), newJob("3", func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](1) }), metav1.CreateOptions{}))
	testcheck.NoError(t, w.WaitFor(context.Background(), "jobs", "default", "load", "condition=Failed"))
	if got := testcheck.Must(jobs.Get(t.Context(), "load", metav1.GetOptions{})).Status.Failed; got != 2 {
		t.Errorf("%d pods failed, want 2", got)
	}
}

// TestJobWithInitContainer: an init container that fails once is run again, or its pod fails and is
// replaced by another one.
func TestJobWithInitContainer(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    cluster.Config
		policy corev1.RestartPolicy
		limit  int32 // of restarts and failed pods
		failed int32
		end    string
	}{
		{"restarted, stepped", cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}}, corev1.RestartPolicyOnFailure, 2, 0, "Complete"},
		{"restarted, live", cluster.Config{Nodes: 1, Devices: cluster.Array}, corev1.RestartPolicyOnFailure, 2, 0, "Complete"},
		{"replaced, stepped", cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}}, corev1.RestartPolicyNever, 1, 2, "Failed"},
		{"replaced, live", cluster.Config{Nodes: 1, Devices: cluster.Array, ClockSpeed: 60}, corev1.RestartPolicyNever, 1, 2, "Failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			w := start(t, c.cfg)
			must(t)(w.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
			jobs := w.Client().BatchV1().Jobs("default")
			must(t)(jobs.Create(ctx, newJob("0 seed=1", func(s *batchv1.JobSpec) {
				s.BackoffLimit, s.Template.Spec.RestartPolicy = &c.limit, c.policy
				s.Template.Spec.InitContainers = []corev1.Container{{Name: "seed", Image: "i"}}
			}), metav1.CreateOptions{}))
			testcheck.NoError(t, w.WaitFor(ctx, "jobs", "default", "load", "condition="+c.end))
			if got := testcheck.Must(jobs.Get(ctx, "load", metav1.GetOptions{})).Status.Failed; got != c.failed {
				t.Errorf("%d pods failed, want %d", got, c.failed)
			}
		})
	}
}

// TestCronJob: a job is created at its time, runs, and is deleted some time after it has finished. The
// cron job does not keep the world from being at rest.
func TestCronJob(t *testing.T) {
	ctx := t.Context()
	w := start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
	must(t)(w.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "backup"}, Spec: batchv1.CronJobSpec{
		Schedule: "@hourly", JobTemplate: batchv1.JobTemplateSpec{
			Spec: newJob("0", func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](1800) }).Spec,
		},
	}}
	must(t)(w.Client().BatchV1().CronJobs("default").Create(ctx, cron, metav1.CreateOptions{}))
	testcheck.NoError(t, w.Run(ctx))
	if got := len(w.Server().List("jobs")); got != 0 {
		t.Fatalf("%d jobs at once", got)
	}
	user := w.Host().Process("user")
	user.Spawn("sleep", func(context.Context) { user.Sleep(160 * time.Minute) })
	testcheck.NoError(t, w.Run(ctx))
	cron = testcheck.Must(w.Client().BatchV1().CronJobs("default").Get(ctx, "backup", metav1.GetOptions{}))
	last := cron.Status.LastScheduleTime
	if last == nil || !last.Time.Equal(sim.Epoch.Add(2*time.Hour)) || cron.Status.LastSuccessfulTime == nil || len(cron.Status.Active) > 0 {
		t.Errorf("status %+v", cron.Status)
	}
	if jobs, pods := len(w.Server().List("jobs")), len(w.Server().List("pods")); jobs+pods > 0 {
		t.Errorf("%d jobs, %d pods", jobs, pods)
	}
}

// TestCronJobKeepsItsJobs: a world is at rest although the jobs of a cron job exist for longer than its
// period.
func TestCronJobKeepsItsJobs(t *testing.T) {
	ctx := t.Context()
	w := start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 20_000}})
	testcheck.NoError(t, w.Apply(ctx, `
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "@hourly"
  jobTemplate:
    spec:
      ttlSecondsAfterFinished: 7200
      template:
        metadata: {annotations: {volsim.dev/exit-codes: "0"}}
        spec: {restartPolicy: Never, containers: [{name: report, image: report}]}
`))
	user := w.Host().Process("user")
	user.Spawn("sleep", func(context.Context) { user.Sleep(270 * time.Minute) })
	testcheck.NoError(t, w.Run(ctx))
	if passed := w.Host().Now().Sub(sim.Epoch); passed > 275*time.Minute {
		t.Errorf("%v have passed, want four hours and a half", passed)
	}
	// Those of 3:00 and 4:00 exist, and the next one has not come.
	testcheck.Equal(t, "jobs", 2, len(w.Server().List("jobs")))
}
