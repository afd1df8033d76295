package histories

import (
	"fmt"
	"slices"
	"testing"

	"github.com/volsim/volsim/sim"
)

// A Pair compares our implementation with upstream's. C configures a mutant of ours.
type Pair[S fmt.Stringer, W, C any] struct {
	// Ours executes a history, in the default order if chooser is nil.
	Ours func(h History[S], chooser sim.Chooser, spoil C) Execution[W]
	// Upstream executes a history as long as its states are equal to want.
	Upstream func(t *testing.T, h History[S], want []State) Execution[W]
	// Excuse returns why a difference is allowed, or "".
	Excuse func(Delta[S, W]) string
	// Violation returns what ours did that it must never do, or "". It may be nil.
	Violation func(W) string
}

// A Patience bounds how often a history is executed.
type Patience struct {
	Upstream int // executions of upstream to reach the result of ours
	Ours     int // executions of ours, in other task orders, to reach the result of upstream
}

// The usual patience, that before a difference is reported, that while a difference is shrunk, and
// that while a mutant's difference is shrunk.
var (
	Thorough = Patience{Upstream: 5, Ours: 30}
	Stubborn = Patience{Upstream: 40, Ours: 60}
	Hasty    = Patience{Upstream: 8, Ours: 20}
	Hastier  = Patience{Upstream: 8, Ours: 6}
)

// A Verdict is the result of a comparison.
type Verdict struct {
	Attempts  int    // executions of upstream
	Diff      string // the difference; "": none
	Steps     int    // number of steps to the difference
	Undecided string // why the history was not compared to its end; "" if it was
}

// Compare executes a history with both, and again with upstream if the results differ.
func (p Pair[S, W, C]) Compare(t *testing.T, h History[S], patience Patience, spoil C) Verdict {
	mine := p.Ours(h, nil, spoil)
	want := mine.States
	if p.Violation != nil {
		if what := p.Violation(mine.World); what != "" {
			return Verdict{Steps: len(h), Diff: h.String() + "\n" + what}
		}
	}
	furthest, misses := 0, 0
	for lives := 1; ; lives++ {
		got := p.Upstream(t, h, want)
		last := len(got.States) - 1
		switch {
		case got.Undecided != "":
			return Verdict{Attempts: lives, Undecided: got.Undecided}
		case slices.Equal(got.States[last], want[last]):
			return Verdict{Attempts: lives}
		case last > furthest:
			furthest, misses = last, 0
		}
		if last < furthest {
			if lives < 10*patience.Upstream {
				continue
			}
			return Verdict{Attempts: lives, Undecided: "too many ties"}
		}
		misses++
		d := Delta[S, W]{h[:last+1], got.States[last], want[last], got.World, mine.World}
		if what := p.Excuse(d); what != "" {
			return Verdict{Attempts: lives, Undecided: what}
		}
		if misses < patience.Upstream {
			continue
		}
		if p.oursReaches(h[:last+1], got.States[last], patience.Ours, spoil) {
			return Verdict{Attempts: lives, Undecided: "in another order ours does what upstream does"}
		}
		return Verdict{Attempts: lives, Steps: last + 1, Diff: fmt.Sprintf(
			"%s\nin %d lives of upstream's the last step was followed by (-upstream +ours):\n%s", h[:last+1], misses, d)}
	}
}

// oursReaches reports whether ours reaches the state of upstream in another task order.
func (p Pair[S, W, C]) oursReaches(h History[S], upstream State, times int, spoil C) bool {
	for seed := range times {
		states := p.Ours(h, sim.NewSeeded(uint64(seed)), spoil).States
		if slices.Equal(states[len(states)-1], upstream) {
			return true
		}
	}
	return false
}
