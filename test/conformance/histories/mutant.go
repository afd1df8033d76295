package histories

import (
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// FindMutant has a mutant of ours looked for, and fails unless it is found and what shows it takes no more than so many steps.
func (p Pair[S, W, C]) FindMutant(t *testing.T, draw *rapid.Generator[History[S]], mutant C, steps int) {
	t.Helper()
	at := 0 // of the last history that showed it
	tb := &sandbox{TB: t}
	tb.run(func() {
		p.Check(tb, t, 1, draw, mutant, true, func(_ History[S], v Verdict) {
			if v.Diff != "" {
				at, tb.shown = v.Steps, v.Diff
			}
		})
	})
	switch {
	case !tb.failed:
		t.Error("not found")
	case at > steps:
		t.Errorf("shown by %d steps; want at most %d\n%s", at, steps, tb.shown)
	default:
		t.Logf("shown by\n%s", tb.shown)
	}
}

// sandbox is a test that may fail.
type sandbox struct {
	rapid.TB

	failed bool
	shown  string // the last difference
}

// run runs f until it ends, or ends the test.
func (s *sandbox) run(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	<-ended
}

// Failed tells whether the test has failed.
func (s *sandbox) Failed() bool { return s.failed }

// Fail notes that it has.
func (s *sandbox) Fail() { s.failed = true }

// Log is silent, as are the others that tell something.
func (s *sandbox) Log(...any) {}

// Logf is silent.
func (s *sandbox) Logf(string, ...any) {}

// Error fails.
func (s *sandbox) Error(...any) { s.Fail() }

// Errorf fails.
func (s *sandbox) Errorf(string, ...any) { s.Fail() }

// Fatal fails and ends the test.
func (s *sandbox) Fatal(...any) { s.FailNow() }

// Fatalf fails and ends the test.
func (s *sandbox) Fatalf(string, ...any) { s.FailNow() }

// FailNow fails and ends the test.
func (s *sandbox) FailNow() {
	s.Fail()
	runtime.Goexit()
}
