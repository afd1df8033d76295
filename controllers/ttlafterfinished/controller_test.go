package ttlafterfinished_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/ttlafterfinished"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

var ctx = context.Background()

// newJob returns a job that exists for some seconds after its end; nil: indefinitely.
func newJob(ttl *int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "default"},
		Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ttl, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "image"}},
		}}},
	}
}

// finish gives a job the status of one that ended at a time.
func finish(job *batchv1.Job, how batchv1.JobConditionType, at time.Time) {
	end := metav1.NewTime(at)
	interim := batchv1.JobFailureTarget
	job.Status.StartTime = &end
	if how == batchv1.JobComplete {
		interim = batchv1.JobSuccessCriteriaMet
		job.Status.CompletionTime = &end
	}
	for _, of := range []batchv1.JobConditionType{interim, how} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: of, Status: corev1.ConditionTrue, LastTransitionTime: end,
		})
	}
}

func start(w *testworld.World) {
	process := w.Host.Process("ttlafterfinished")
	ttlafterfinished.New(ttlafterfinished.Config{
		Process: process, Client: w.Server.Client(process),
		Informers: w.Server.Informers(process, fake.Filter{Resource: "jobs", Match: func(_, obj fake.Object) bool {
			return obj != nil && ttlafterfinished.Concerns(obj.(*batchv1.Job))
		}}),
	})
}

// TestDeletion: a job is deleted when its time is over, with its pods before it.
func TestDeletion(t *testing.T) {
	for name, test := range map[string]struct {
		ttl     *int32
		how     batchv1.JobConditionType // "": it has not ended
		deleted time.Duration            // after its end; -1: it is not
	}{
		"complete":            {ptr.To[int32](100), batchv1.JobComplete, 100 * time.Second},
		"failed":              {ptr.To[int32](100), batchv1.JobFailed, 100 * time.Second},
		"at once":             {ptr.To[int32](0), batchv1.JobComplete, 0},
		"no time":             {nil, batchv1.JobComplete, -1},
		"not ended":           {ptr.To[int32](100), "", -1},
		"suspended, no limit": {nil, "", -1},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				w := testworld.New(t, sim.SteppedConfig{Chooser: sim.NewSeeded(seed), StepsMax: 1000})
				start(w)
				jobs := w.User.BatchV1().Jobs("default")
				job := testcheck.Must(jobs.Create(ctx, newJob(test.ttl), metav1.CreateOptions{}))
				w.Run()
				began := w.Host.Now()
				if test.how != "" {
					finish(job, test.how, began)
					testcheck.Must(jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{}))
				}
				w.Run()
				job = testcheck.Must(jobs.Get(ctx, "j", metav1.GetOptions{}))
				if test.deleted < 0 {
					if job.DeletionTimestamp != nil {
						t.Fatal("it was deleted")
					}
					continue
				}
				if job.DeletionTimestamp == nil || job.DeletionTimestamp.Sub(began) != test.deleted {
					t.Fatalf("deleted at %v, want %v after %v", job.DeletionTimestamp, test.deleted, began)
				}
				if got := fmt.Sprint(job.Finalizers); got != "["+metav1.FinalizerDeleteDependents+"]" {
					t.Fatalf("finalizers %s", got)
				}
			}
		})
	}
}

// TestChangedTime: the time of the server counts, not that of the cache.
func TestChangedTime(t *testing.T) {
	w := testworld.New(t, sim.SteppedConfig{StepsMax: 1000})
	start(w)
	jobs := w.User.BatchV1().Jobs("default")
	job := testcheck.Must(jobs.Create(ctx, newJob(ptr.To[int32](100)), metav1.CreateOptions{}))
	began := w.Host.Now()
	finish(job, batchv1.JobComplete, began)
	testcheck.Must(jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{}))
	w.Until("the time to be over", func() bool { return w.Host.Now().Sub(began) >= 100*time.Second })
	job = testcheck.Must(jobs.Get(ctx, "j", metav1.GetOptions{}))
	job.Spec.TTLSecondsAfterFinished = ptr.To[int32](200)
	testcheck.Must(jobs.Update(ctx, job, metav1.UpdateOptions{}))
	w.Run()
	job = testcheck.Must(jobs.Get(ctx, "j", metav1.GetOptions{}))
	if job.DeletionTimestamp == nil || job.DeletionTimestamp.Sub(began) != 200*time.Second {
		t.Errorf("deleted at %v", job.DeletionTimestamp)
	}
}

// TestJobOfACronJob: a stepped world is at rest although such a job exists. It is deleted when time passes.
func TestJobOfACronJob(t *testing.T) {
	w := testworld.New(t, sim.SteppedConfig{StepsMax: 1000})
	start(w)
	jobs := w.User.BatchV1().Jobs("default")
	job := newJob(ptr.To[int32](100))
	job.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: "1", Controller: ptr.To(true)},
	}
	job = testcheck.Must(jobs.Create(ctx, job, metav1.CreateOptions{}))
	began := w.Host.Now()
	finish(job, batchv1.JobComplete, began)
	testcheck.Must(jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{}))
	w.Run()
	if passed := w.Host.Now().Sub(began); passed > 0 {
		t.Fatalf("%v have passed for the job", passed)
	}
	user := w.Host.Process("user")
	user.Spawn("sleep", func(context.Context) { user.Sleep(3 * time.Minute) })
	w.Run()
	job = testcheck.Must(jobs.Get(ctx, "j", metav1.GetOptions{}))
	if job.DeletionTimestamp == nil || job.DeletionTimestamp.Sub(began) != 100*time.Second {
		t.Errorf("deleted at %v, want 100 s after %v", job.DeletionTimestamp, began)
	}
}
