package executor_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/executor"
)

// twin knows the whole history and looks through all of it every time.
type twin struct{ history []event }

type event struct {
	key  executor.Key
	name string
	at   time.Time
	what string // "start", "success", "failure"
}

func (w *twin) add(j *job, at time.Time, what string) {
	w.history = append(w.history, event{key: j.op.Key, name: j.op.Name, at: at, what: what})
}

func (w *twin) pending(key executor.Key) bool {
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
func (w *twin) until(key executor.Key, name string) time.Time {
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

// untilOf counts the failures in succession of exactly this key and name.
func (w *twin) untilOf(key executor.Key, name string) time.Time {
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

// TestBackoffIsWhatTheTwinSays holds the executor against the twin over drawn histories: what starts, what is refused and
// for how long (I23, I23b).
func TestBackoffIsWhatTheTwinSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, w := newBench(), &twin{}
		defer b.host.Close()
		var jobs []*job
		t.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				key := drawKey(t)
				name := rapid.SampledFrom([]string{executor.Attach, executor.Detach}).Draw(t, "name")
				j, err := b.start(key, name)
				checkStart(t, w, key, name, b.host.Now(), err)
				if err == nil {
					w.add(j, b.host.Now(), "start")
					jobs = append(jobs, j)
				}
			},
			"end": func(t *rapid.T) {
				if len(jobs) == 0 {
					t.Skip("nothing runs")
				}
				i := rapid.IntRange(0, len(jobs)-1).Draw(t, "job")
				if rapid.Bool().Draw(t, "success") {
					b.end(jobs[i], nil)
					w.add(jobs[i], b.host.Now(), "success")
				} else {
					b.end(jobs[i], errBroken)
					w.add(jobs[i], b.host.Now(), "failure")
				}
				jobs = slices.Delete(jobs, i, i+1)
			},
			"pass": func(t *rapid.T) {
				b.pass(rapid.SampledFrom([]time.Duration{
					time.Millisecond, 500 * time.Millisecond, time.Second, 10 * time.Second, 2 * time.Minute, 5 * time.Minute,
				}).Draw(t, "time"))
			},
		})
	})
}

func checkStart(t *rapid.T, w *twin, key executor.Key, name string, now time.Time, err error) {
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
