package cronjob_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/cronjob"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

// world is a server with a CronJob controller. Its jobs end when the test says so.
type world struct {
	*testworld.World

	controller *sim.Process
	clock      *sim.Process
	fail       func(action trace.Action) error // fails requests of the controller, if not nil
}

func newWorld(t testing.TB, chooser sim.Chooser) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000})}
	w.clock = w.Host.Process("clock")
	w.start()
	return w
}

// start starts the controller.
func (w *world) start() {
	w.controller = w.Host.Process("cronjob")
	client := w.Server.Client(testworld.FailingCaller{Caller: w.controller, Fail: func(action trace.Action) error {
		if w.fail == nil {
			return nil
		}
		return w.fail(action)
	}})
	cronjob.New(cronjob.Config{
		Process: w.controller, Client: client,
		Informers: w.Server.Informers(w.controller, fake.Filter{Resource: "jobs", Match: func(old, obj fake.Object) bool {
			return old != nil && cronjob.ConcernsJob(old.(*batchv1.Job)) || obj != nil && cronjob.ConcernsJob(obj.(*batchv1.Job))
		}}),
		Recorder: events.New(events.Config{Process: w.controller, Client: client, Source: cronjob.EventSource}),
	})
}

// crash ends the controller's process, and starts another.
func (w *world) crash() {
	w.Server.RemoveComponent(w.controller)
	w.Host.Crash(w.controller)
	w.start()
}

// newCron returns a cron job that is due each hour.
func newCron(change ...func(*batchv1.CronJobSpec)) *batchv1.CronJob {
	cron := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"},
		Spec: batchv1.CronJobSpec{Schedule: "0 * * * *", JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"x": "y"}},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "image"}},
			}}},
		}},
	}
	for _, f := range change {
		f(&cron.Spec)
	}
	return cron
}

func concurrency(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJobSpec) {
	return func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = p }
}

func startingDeadline(seconds int64) func(*batchv1.CronJobSpec) {
	return func(s *batchv1.CronJobSpec) { s.StartingDeadlineSeconds = &seconds }
}

func history(succeeded, failed int32) func(*batchv1.CronJobSpec) {
	return func(s *batchv1.CronJobSpec) {
		s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = &succeeded, &failed
	}
}

func suspend(yes bool) func(*batchv1.CronJobSpec) {
	return func(s *batchv1.CronJobSpec) { s.Suspend = &yes }
}

func (w *world) create(cron *batchv1.CronJob) {
	w.Helper()
	testcheck.Must(w.User.BatchV1().CronJobs("default").Create(ctx, cron, metav1.CreateOptions{}))
}

func (w *world) cron() *batchv1.CronJob {
	w.Helper()
	return testcheck.Must(w.User.BatchV1().CronJobs("default").Get(ctx, "c", metav1.GetOptions{}))
}

// edit changes the cron job.
func (w *world) edit(change ...func(*batchv1.CronJobSpec)) {
	w.Helper()
	cron := w.cron()
	for _, f := range change {
		f(&cron.Spec)
	}
	testcheck.Must(w.User.BatchV1().CronJobs("default").Update(ctx, cron, metav1.UpdateOptions{}))
}

// pass lets a time pass, and runs the world.
func (w *world) pass(d time.Duration) {
	w.Helper()
	w.clock.NewTimer("pass", func() {}).ResetAt(w.Host.Now().Add(d))
	w.Run()
}

// jobs returns the jobs in the order of their times.
func (w *world) jobs() []*batchv1.Job {
	var jobs []*batchv1.Job
	for _, obj := range w.Server.List("jobs") {
		jobs = append(jobs, obj.(*batchv1.Job).DeepCopy())
	}
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return cmp.Compare(a.Name, b.Name) })
	return jobs
}

// end ends a job, as the Job controller does.
func (w *world) end(job *batchv1.Job, how batchv1.JobConditionType) {
	w.Helper()
	now := metav1.NewTime(w.Host.Now())
	interim := batchv1.JobFailureTarget
	job.Status.StartTime = ptr.To(job.CreationTimestamp)
	if how == batchv1.JobComplete {
		interim = batchv1.JobSuccessCriteriaMet
		job.Status.CompletionTime = &now
	}
	for _, of := range []batchv1.JobConditionType{interim, how} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: of, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	testcheck.Must(w.User.BatchV1().Jobs("default").UpdateStatus(ctx, job, metav1.UpdateOptions{}))
}

// summary returns the minutes of the times with jobs, with a star for active ones in the status, and the
// minute of the last time.
func (w *world) summary() string {
	var all []string
	s := w.cron().Status
	for _, job := range w.jobs() {
		at := testcheck.Must(time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]))
		text := at.UTC().Format("15:04")
		if slices.ContainsFunc(s.Active, func(ref corev1.ObjectReference) bool { return ref.UID == job.UID }) {
			text += "*"
		}
		all = append(all, text)
	}
	last := "none"
	if s.LastScheduleTime != nil {
		last = s.LastScheduleTime.UTC().Format("15:04")
	}
	return fmt.Sprintf("%s, last %s", strings.Join(all, " "), last)
}

func (w *world) want(summary, when string) {
	w.Helper()
	if got := w.summary(); got != summary {
		w.Fatalf("%s: %q, want %q", when, got, summary)
	}
}

// messages returns the controller's events, each text once.
func (w *world) messages() []string {
	var all []string
	for _, obj := range w.Server.List("events") {
		if e := obj.(*corev1.Event); e.Source.Component == cronjob.EventSource {
			all = append(all, e.Type+" "+e.Reason+" "+e.Message)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
