package histories

import (
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// FindMutant searches for a history that shows a mutant of ours. It fails if there is none, or if
// the shrunk history has more than the given number of steps.
func (p Pair[S, W, C]) FindMutant(t *testing.T, draw *rapid.Generator[History[S]], mutant C, steps int) {
	t.Helper()
	FindMutant(t, steps, func(tb rapid.TB, shown func(Verdict)) {
		p.Check(tb, t, 1, draw, mutant, true, func(_ History[S], v Verdict) { shown(v) })
	})
}

// FindMutant calls check, which fails tb if it finds a history that shows a mutant. check calls shown
// for each comparison. FindMutant fails if check found none, or if the last one has more than the
// given number of steps.
func FindMutant(t *testing.T, steps int, check func(tb rapid.TB, shown func(Verdict))) {
	t.Helper()
	last := 0 // steps of the last history that showed it
	tb := &sandbox{TB: t}
	tb.run(func() {
		check(tb, func(v Verdict) {
			if v.Diff != "" {
				last, tb.shown = v.Steps, v.Diff
			}
		})
	})
	switch {
	case !tb.failed:
		t.Error("not found")
	case last > steps:
		t.Errorf("shown by %d steps; want at most %d\n%s", last, steps, tb.shown)
	default:
		t.Logf("shown by\n%s", tb.shown)
	}
}

// A sandbox is a test that may fail.
type sandbox struct {
	rapid.TB

	failed bool
	shown  string // the last difference
}

// run runs f until it returns or ends the test.
func (s *sandbox) run(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	<-ended
}

// Failed reports whether the test has failed.
func (s *sandbox) Failed() bool { return s.failed }

// Fail marks the test as failed.
func (s *sandbox) Fail() { s.failed = true }

// Log discards its arguments, as Logf does.
func (s *sandbox) Log(...any) {}

func (s *sandbox) Logf(string, ...any) {}

// Error marks the test as failed, as Errorf does.
func (s *sandbox) Error(...any) { s.Fail() }

func (s *sandbox) Errorf(string, ...any) { s.Fail() }

// Fatal fails and ends the test, as Fatalf does.
func (s *sandbox) Fatal(...any) { s.FailNow() }

func (s *sandbox) Fatalf(string, ...any) { s.FailNow() }

// FailNow fails and ends the test.
func (s *sandbox) FailNow() {
	s.Fail()
	runtime.Goexit()
}
