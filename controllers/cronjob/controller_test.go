package cronjob_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// The virtual clock begins at midnight.

// TestSchedule: a job is created at each time of the schedule, with its name, labels and owner.
func TestSchedule(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newCron())
		w.Run()
		w.want(", last none", "created")
		w.pass(59 * time.Minute)
		w.want(", last none", "before the first time")
		w.pass(2 * time.Minute)
		w.want("01:00*, last 01:00", "the first time")
		w.pass(2 * time.Hour)
		w.want("01:00* 02:00* 03:00*, last 03:00", "two hours later")
		job := w.jobs()[0]
		at := sim.Epoch.Add(time.Hour)
		if job.Labels["a"] != "b" || job.Annotations["x"] != "y" || !metav1.IsControlledBy(job, w.cron()) ||
			job.Annotations[batchv1.CronJobScheduledTimestampAnnotation] != at.Format(time.RFC3339) {
			t.Fatalf("job %+v", job.ObjectMeta)
		}
		if ref := w.cron().Status.Active[0]; ref.Kind != "Job" || ref.APIVersion != "batch/v1" || ref.Name != job.Name || ref.Namespace != "default" {
			t.Fatalf("reference %+v", ref)
		}
	}
}

// TestConcurrency: what happens at the second time while the job of the first runs.
func TestConcurrency(t *testing.T) {
	for policy, want := range map[batchv1.ConcurrencyPolicy]string{
		batchv1.AllowConcurrent: "01:00* 02:00*, last 02:00", batchv1.ForbidConcurrent: "01:00*, last 01:00",
		batchv1.ReplaceConcurrent: "02:00*, last 02:00",
	} {
		for seed := range uint64(10) {
			w := newWorld(t, sim.NewSeeded(seed))
			w.create(newCron(concurrency(policy)))
			w.pass(2*time.Hour + time.Minute)
			w.want(want, string(policy))
			if policy != batchv1.ForbidConcurrent {
				continue
			}
			w.end(w.jobs()[0], batchv1.JobComplete)
			w.Run()
			w.want("01:00 02:00*, last 02:00", "the job that was waited for has ended")
		}
	}
}

// TestEnds: jobs that have ended or gone are not active any more.
func TestEnds(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newCron())
	w.pass(3*time.Hour + time.Minute)
	w.end(w.jobs()[0], batchv1.JobComplete)
	w.end(w.jobs()[1], batchv1.JobFailed)
	w.NoError(w.User.BatchV1().Jobs("default").Delete(ctx, w.jobs()[2].Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	}))
	w.Run()
	w.want("01:00 02:00, last 03:00", "ended")
	if got := w.cron().Status.LastSuccessfulTime; got == nil || !got.Equal(w.jobs()[0].Status.CompletionTime) {
		t.Errorf("last success %v", got)
	}
	var reasons []string
	for _, m := range w.messages() {
		reasons = append(reasons, strings.Fields(m)[1])
	}
	want := []string{"MissingJob", "SawCompletedJob", "SawCompletedJob", "SuccessfulCreate", "SuccessfulCreate", "SuccessfulCreate"}
	if !slices.Equal(reasons, want) {
		t.Errorf("events %q", w.messages())
	}
}

// TestHistory: only so many jobs that have ended are kept, the youngest.
func TestHistory(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newCron(history(1, 0)))
	w.pass(4*time.Hour + time.Minute)
	for _, how := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobComplete} {
		for _, job := range w.jobs() {
			if len(job.Status.Conditions) == 0 {
				w.end(job, how)
				break
			}
		}
		w.Run()
	}
	w.want("03:00 04:00*, last 04:00", "one success is kept")
}

// TestMissedTimes: of the times that were missed, only the last is made up for, within the deadline.
func TestMissedTimes(t *testing.T) {
	for name, test := range map[string]struct {
		change []func(*batchv1.CronJobSpec)
		down   time.Duration
		want   string
		event  string
	}{
		"one":                 {nil, time.Hour, "01:00*, last 01:00", "SuccessfulCreate"},
		"a few":               {nil, 5 * time.Hour, "05:00*, last 05:00", "SuccessfulCreate"},
		"too many":            {nil, 102 * time.Hour, "06:00*, last 06:00", "TooManyMissedTimes"},
		"within the deadline": {[]func(*batchv1.CronJobSpec){startingDeadline(3600)}, 5 * time.Hour, "05:00*, last 05:00", "SuccessfulCreate"},
		"suspended meanwhile": {[]func(*batchv1.CronJobSpec){suspend(true)}, 5 * time.Hour, "05:00*, last 05:00", "SuccessfulCreate"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.create(newCron(test.change...))
			w.Run()
			if w.cron().Spec.Suspend != nil && *w.cron().Spec.Suspend {
				w.pass(test.down + time.Minute)
				w.want(", last none", "suspended")
				w.edit(suspend(false))
				w.Run()
			} else {
				w.Server.RemoveComponent(w.controller)
				w.Host.Crash(w.controller)
				w.pass(test.down + time.Minute)
				w.start()
				w.Run()
			}
			w.want(test.want, "made up for")
			if got := w.messages(); !strings.Contains(strings.Join(got, "\n"), test.event) {
				t.Errorf("events %q", got)
			}
		})
	}
	w := newWorld(t, nil)
	w.create(newCron(startingDeadline(10)))
	w.Run()
	w.Server.RemoveComponent(w.controller)
	w.Host.Crash(w.controller)
	w.pass(time.Hour + time.Minute)
	w.start()
	w.Run()
	w.want(", last none", "the deadline is over")
}

// TestSchedules: time zones, a schedule that changes, and schedules that never come.
func TestSchedules(t *testing.T) {
	zone := func(name string) func(*batchv1.CronJobSpec) {
		return func(s *batchv1.CronJobSpec) { s.Schedule, s.TimeZone = "0 3 * * *", &name }
	}
	w := newWorld(t, nil)
	w.create(newCron(zone("Asia/Tokyo")))
	w.pass(23 * time.Hour)
	w.want("18:00*, last 18:00", "three o'clock in Tokyo")

	w = newWorld(t, nil)
	w.create(newCron())
	w.pass(time.Minute)
	w.edit(func(s *batchv1.CronJobSpec) { s.Schedule = "*/10 * * * *" })
	w.pass(10 * time.Minute)
	w.want("00:10*, last 00:10", "an earlier time")

	w = newWorld(t, nil)
	w.create(newCron(func(s *batchv1.CronJobSpec) { s.Schedule = "59 23 31 2 *" }))
	w.pass(time.Hour)
	w.want(", last none", "31 February")
	if got := w.messages(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning InvalidSchedule") {
		t.Errorf("events %q", got)
	}
}

// TestDeletedCronJob: a cron job that is being deleted creates nothing.
func TestDeletedCronJob(t *testing.T) {
	w := newWorld(t, nil)
	cron := newCron()
	cron.Finalizers = []string{"example.com/keep"}
	w.create(cron)
	w.Run()
	w.NoError(w.User.BatchV1().CronJobs("default").Delete(ctx, "c", metav1.DeleteOptions{}))
	w.pass(2 * time.Hour)
	w.want(", last none", "deleted")
}

// TestCrashAnywhere: after a crash at any write there is one job for each time, and it is in the status.
func TestCrashAnywhere(t *testing.T) {
	at, reached := 0, true
	for ; reached; at++ {
		reached = false
		w := newWorld(t, nil)
		commits := 0
		w.Server.OnCommit(func(fake.Commit) { commits++ })
		w.create(newCron())
		w.clock.NewTimer("pass", func() {}).ResetAt(w.Host.Now().Add(2*time.Hour + time.Minute))
		for commits < at && w.Host.Step() {
		}
		if commits >= at {
			reached = true
			w.crash()
		}
		w.Run()
		w.want("01:00* 02:00*, last 02:00", "after a crash")
	}
	if at < 7 {
		t.Errorf("%d crashes", at)
	}
}

// TestForbidAfterACrash: a job that was created before a crash, and is in no cache yet, is active.
func TestForbidAfterACrash(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newCron(concurrency(batchv1.ForbidConcurrent)))
	w.fail = func(a trace.Action) error {
		if a.Verb == "update/status" {
			return errors.New("no")
		}
		return nil
	}
	w.clock.NewTimer("pass", func() {}).ResetAt(w.Host.Now().Add(time.Hour + time.Minute))
	for len(w.jobs()) == 0 && w.Host.Step() {
	}
	w.Server.RemoveComponent(w.controller)
	w.Host.Crash(w.controller)
	w.fail = nil
	w.pass(time.Hour)
	w.controller = w.Host.Process("cronjob")
	w.Server.DelayCache(w.controller, "jobs", 1)
	w.start()
	w.Run()
	if got := len(w.jobs()); got != 1 {
		t.Errorf("%d jobs run at once", got)
	}
}

// TestFailedRequests: a request that fails is repeated.
func TestFailedRequests(t *testing.T) {
	for _, verb := range []string{"create", "update/status"} {
		w := newWorld(t, nil)
		failures := 0
		w.fail = func(a trace.Action) error {
			if a.Verb != verb || strings.HasPrefix(a.Object, "events/") || failures == 3 {
				return nil
			}
			failures++
			return errors.New("no")
		}
		w.create(newCron())
		w.pass(time.Hour + time.Minute)
		w.want("01:00*, last 01:00", verb)
		if failures != 3 {
			t.Errorf("%s: %d failures", verb, failures)
		}
	}
}

// TestStrangers: a job that the controller did not create is left alone; one that it controls is
// reported.
func TestStrangers(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newCron())
	w.Run()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: newCron().Spec.JobTemplate.Spec}
	testcheck.Must(w.User.BatchV1().Jobs("default").Create(ctx, job.DeepCopy(), metav1.CreateOptions{}))
	job.Name, job.OwnerReferences = "mine", []metav1.OwnerReference{*metav1.NewControllerRef(w.cron(), batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	testcheck.Must(w.User.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{}))
	w.Run()
	want := []string{"Warning UnexpectedJob Saw a job that the controller did not create or forgot: mine"}
	if diff := cmp.Diff(want, w.messages()); diff != "" || len(w.cron().Status.Active) > 0 {
		t.Errorf("active %v, events (-want +got):\n%s", w.cron().Status.Active, diff)
	}
}

// TestReplacedByAnother: a job of the name that the controller does not own is no job of its own.
func TestReplacedByAnother(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newCron())
	w.Run()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "c-" + strconv.FormatInt(sim.Epoch.Add(time.Hour).Unix()/60, 10), Annotations: map[string]string{
			batchv1.CronJobScheduledTimestampAnnotation: sim.Epoch.Format(time.RFC3339),
		},
	}, Spec: newCron().Spec.JobTemplate.Spec}
	testcheck.Must(w.User.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{}))
	w.pass(time.Hour + time.Minute)
	w.want("00:00, last none", "the name is taken")
	for _, obj := range w.Server.List("events") {
		t.Errorf("event %+v", obj.(*corev1.Event).Message)
	}
}
