package histories

import (
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// A Mutant is a deliberately broken variant of our implementation.
type Mutant[M any] struct {
	Name     string
	Mutation M
	Steps    int // maximum length of the shrunk history that shows it
}

// FindMutants searches for a history that shows each mutant of ours. It fails for a mutant if there
// is none, or if the shrunk history is too long.
func (p Pair[S, W, M]) FindMutants(t *testing.T, draw *rapid.Generator[History[S]], mutants []Mutant[M]) {
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			p.findMutant(t, draw, m)
		})
	}
}

func (p Pair[S, W, M]) findMutant(t *testing.T, draw *rapid.Generator[History[S]], m Mutant[M]) {
	t.Helper()
	last := 0 // steps of the last history that showed it
	tb := &sandbox{TB: t}
	tb.run(func() {
		p.check(tb, t, 1, draw, m.Mutation, true, func(_ History[S], v Verdict) {
			if v.Diff != "" {
				last, tb.shown = v.Steps, v.Diff
			}
		})
	})
	switch {
	case !tb.failed:
		t.Error("not found")
	case last > m.Steps:
		t.Errorf("shown by %d steps; want at most %d\n%s", last, m.Steps, tb.shown)
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
