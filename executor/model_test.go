package executor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/executor"
)

// model keeps the whole history and searches it each time.
type model struct{ history []event }

type event struct {
	job  *job
	key  executor.Key
	name string
	at   time.Time
	what string // "start", "success", "failure"
}

func (w *model) add(j *job, at time.Time, what string) {
	w.history = append(w.history, event{job: j, key: j.op.Key, name: j.op.Name, at: at, what: what})
}

func (w *model) pending(key executor.Key) bool {
	running := 0
	for _, e := range w.history {
		switch {
		case !naiveOverlaps(e.key, key):
		case e.what == "start":
			running++
		default:
			running--
		}
	}
	return running > 0
}

// until is the time before which the operation must not start.
func (w *model) until(key executor.Key, name string) time.Time {
	var until time.Time
	for _, e := range w.history {
		if e.name == name && naiveOverlaps(e.key, key) {
			if at := w.untilOf(e.key, name); at.After(until) {
				until = at
			}
		}
	}
	return until
}

// untilOf counts the successive failures of exactly this key and name.
func (w *model) untilOf(key executor.Key, name string) time.Time {
	failures, last := 0, time.Time{}
	for _, e := range w.history {
		switch {
		case e.name != name || !naiveOverlaps(e.key, key):
		case e.what == "success":
			failures = 0
		case e.key != key:
		case e.what == "start" && e.at.Sub(last) >= 2*executor.BackoffMax:
			failures = 0
		case e.what == "failure":
			failures++
			last = e.at
		}
	}
	if failures == 0 {
		return time.Time{}
	}
	wait := 500 * time.Millisecond
	for range failures - 1 {
		wait = min(2*wait, 122*time.Second)
	}
	return last.Add(wait)
}

// turns returns the operations with running tasks, computed from the whole history.
func (w *model) turns(limit int) []*job {
	var moving, waiting []*job
	ofVolume := func(j *job) bool {
		return slices.ContainsFunc(moving, func(other *job) bool { return other.op.Key.Volume == j.op.Key.Volume })
	}
	launch := func(may func(*job) bool) {
		if i := slices.IndexFunc(waiting, may); i >= 0 {
			moving, waiting = append(moving, waiting[i]), slices.Delete(waiting, i, i+1)
		}
	}
	for _, e := range w.history {
		if e.what == "start" {
			waiting = append(waiting, e.job)
			if len(moving) < limit || !ofVolume(e.job) {
				launch(func(j *job) bool { return j == e.job })
			}
			continue
		}
		moving = slices.DeleteFunc(moving, func(j *job) bool { return j == e.job })
		if len(moving) < limit {
			launch(func(*job) bool { return true })
		}
		if !ofVolume(e.job) {
			launch(func(j *job) bool { return j.op.Key.Volume == e.job.op.Key.Volume })
		}
	}
	return moving
}

// drawn is an executor and its model over one drawn history.
type drawn struct {
	*bench
	model
	limit   int
	running []*job // started and not ended
	waiting int    // number of tasks that wait until nothing runs
}

func (d *drawn) start(t *rapid.T) {
	key := executor.Key{ // few, so that keys overlap
		Volume: rapid.SampledFrom([]corev1.UniqueVolumeName{"v", "v", "v", "w", ""}).Draw(t, "volume"),
		Pod:    rapid.SampledFrom([]types.UID{"", "", "", "a"}).Draw(t, "pod"),
		Node:   rapid.SampledFrom([]types.NodeName{"", "m", "n"}).Draw(t, "node"),
	}
	name := rapid.SampledFrom([]string{executor.Attach, executor.Attach, executor.Detach}).Draw(t, "name")
	j, err := d.bench.start(key, name)
	checkStart(t, &d.model, key, name, d.host.Now(), err)
	if err == nil {
		d.add(j, d.host.Now(), "start")
		d.running = append(d.running, j)
	}
}

// end ends a running operation.
func (d *drawn) end(t *rapid.T) {
	moving := d.turns(d.limit)
	if len(moving) == 0 {
		t.Skip("nothing runs")
	}
	j := rapid.SampledFrom(moving).Draw(t, "job")
	how := rapid.SampledFrom([]error{nil, errBroken, errPanic}).Draw(t, "how")
	what := "failure"
	if how == nil {
		what = "success"
	}
	d.running = slices.DeleteFunc(d.running, func(other *job) bool { return other == j })
	d.add(j, d.host.Now(), what)
	d.bench.end(j, how)
}

// wait starts a task that waits until nothing runs.
func (d *drawn) wait(*rapid.T) {
	d.waiting++
	d.c.Spawn("wait", func(context.Context) {
		d.x.Wait(0)
		d.waiting--
	})
	d.settle()
}

// check compares the executor with its model.
func (d *drawn) check(t *rapid.T) {
	if got, want := d.x.Running(), len(d.running); got != want {
		t.Fatalf("%d run, want %d\n%s", got, want, d.x)
	}
	if len(d.running) == 0 && d.waiting > 0 {
		t.Fatalf("nothing runs, and %d wait\n%s", d.waiting, d.x)
	}
	want := d.turns(d.limit)
	for _, j := range d.running {
		if got, want := j.moves, slices.Contains(want, j); got != want {
			t.Fatalf("%s on %s has its task: %v, want %v\n%s", j.op.Name, j.op.Key, got, want, d.x)
		}
	}
}

// TestExecutorEqualsItsModel compares the executor with its model over drawn histories: which
// operations start, which are rejected and for how long (I23, I23b), which run next under a limit,
// and which waits end. Some operations panic.
func TestExecutorEqualsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &drawn{limit: rapid.SampledFrom([]int{1, 2, 3, executor.DefaultLimit}).Draw(t, "limit")}
		d.bench = newBenchWith(d.limit)
		defer d.host.Close()
		t.Repeat(map[string]func(*rapid.T){
			"": d.check, "start": d.start, "end": d.end, "wait": d.wait,
			"pass": func(t *rapid.T) {
				d.pass(rapid.SampledFrom([]time.Duration{
					time.Millisecond, 500 * time.Millisecond, time.Second, 10 * time.Second,
					2 * time.Minute, 5 * time.Minute,
				}).Draw(t, "time"))
			},
		})
		for len(d.running) > 0 {
			d.end(t)
			d.check(t)
		}
	})
}

func checkStart(t *rapid.T, w *model, key executor.Key, name string, now time.Time, err error) {
	t.Helper()
	if got, want := errors.Is(err, executor.ErrPending), w.pending(key); got != want {
		t.Fatalf("start %s on %s: %v; pending %v, want %v", name, key, err, got, want)
	}
	if errors.Is(err, executor.ErrPending) || key.Volume == "" {
		return
	}
	var remaining time.Duration
	var backoff *executor.BackoffError
	if errors.As(err, &backoff) {
		remaining = backoff.Remaining
	}
	if want := max(0, w.until(key, name).Sub(now)); remaining != want {
		t.Fatalf("start %s on %s: %v; remaining %v, want %v", name, key, err, remaining, want)
	}
}
