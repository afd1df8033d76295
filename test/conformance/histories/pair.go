package histories

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/volsim/volsim/sim"
)

// A Pair compares our implementation with upstream's. S is a step, W a world, and M a mutation of
// ours; the zero M is none.
type Pair[S fmt.Stringer, W, M any] struct {
	// Ours executes a history, in the default order if chooser is nil.
	Ours func(h History[S], chooser sim.Chooser, mutation M) Execution[W]
	// Upstream executes a history as long as its states are equal to want.
	Upstream func(t *testing.T, h History[S], want []State) Execution[W]
	// Excuse returns why a difference is allowed, or "".
	Excuse func(Delta[S, W]) string
	// ExcuseLast calls Excuse only when upstream's executions are used up.
	ExcuseLast bool
	// Violation returns what ours did that it must never do, or "". It may be nil.
	Violation func(W) string
	// MayTie reports whether a state of ours is one of several possible ones; see Patience.Tie.
	// It may be nil.
	MayTie func(State) bool
	// MayReorder reports whether another task order of ours is an excuse for a difference. Nil: it
	// always is.
	MayReorder func(Delta[S, W]) bool
	// Diff returns a difference as text. Nil: Delta.String.
	Diff func(Delta[S, W]) string
	// Limits bound the executions of a history. The zero value is DefaultLimits.
	Limits Limits
}

// A Patience bounds how often a history is executed.
type Patience struct {
	Upstream int // executions of upstream that differ after the same step
	Tie      int // the same, if the state may be a tie; 0: Upstream
	Total    int // executions of upstream that differ, if later ones differ earlier
	Ours     int // executions of ours, in other task orders, to reach the result of upstream
}

// Limits are the patience of each phase of a search.
type Limits struct {
	First        Patience // first comparison of a history
	Confirm      Patience // before a difference is reported
	Shrink       Patience // while a difference is shrunk
	ShrinkMutant Patience // while the difference of a mutant is shrunk
}

// DefaultLimits are the usual limits.
var DefaultLimits = Limits{
	First:        Patience{Upstream: 5, Total: 50, Ours: 30},
	Confirm:      Patience{Upstream: 40, Total: 400, Ours: 60},
	Shrink:       Patience{Upstream: 8, Total: 80, Ours: 20},
	ShrinkMutant: Patience{Upstream: 8, Total: 80, Ours: 6},
}

// limits returns the limits in effect.
func (p Pair[S, W, M]) limits() Limits {
	if p.Limits == (Limits{}) {
		return DefaultLimits
	}
	return p.Limits
}

// A Verdict is the result of a comparison.
type Verdict struct {
	Attempts  int    // executions of upstream
	Diff      string // the difference; "": none
	Steps     int    // number of steps to the difference
	Undecided string // why the history was not compared to its end; "" if it was
}

// Compare executes a history with both. If the results differ, it executes the history again within
// the limits of a first comparison.
func (p Pair[S, W, M]) Compare(t *testing.T, h History[S], mutation M) Verdict {
	return p.compare(t, h, p.limits().First, mutation)
}

func (p Pair[S, W, M]) compare(t *testing.T, h History[S], patience Patience, mutation M) Verdict {
	ours := p.Ours(h, nil, mutation)
	want := ours.States
	if p.Violation != nil {
		if what := p.Violation(ours.World); what != "" {
			return Verdict{Steps: len(h), Diff: h.String() + "\n" + what}
		}
	}
	furthest, misses := 0, 0
	for attempts := 1; ; attempts++ {
		got := p.Upstream(t, h, want)
		last := len(got.States) - 1
		switch {
		case got.Undecided != "":
			return Verdict{Attempts: attempts, Undecided: got.Undecided}
		case slices.Equal(got.States[last], want[last]):
			return Verdict{Attempts: attempts}
		case last > furthest:
			furthest, misses = last, 0
		}
		if last < furthest {
			if attempts < patience.Total {
				continue
			}
			return Verdict{Attempts: attempts, Undecided: "too many ties"}
		}
		misses++
		enough := patience.Upstream
		if p.MayTie != nil && p.MayTie(want[last]) {
			enough = cmp.Or(patience.Tie, enough)
		}
		if p.ExcuseLast && misses < enough {
			continue
		}
		d := Delta[S, W]{h[:last+1], got.States[last], want[last], got.World, ours.World}
		if what := p.Excuse(d); what != "" {
			return Verdict{Attempts: attempts, Undecided: what}
		}
		if misses < enough {
			continue
		}
		if (p.MayReorder == nil || p.MayReorder(d)) && p.oursReaches(d.History, d.Upstream, patience.Ours, mutation) {
			return Verdict{Attempts: attempts, Undecided: "in another order ours does what upstream does"}
		}
		diff := d.String
		if p.Diff != nil {
			diff = func() string { return p.Diff(d) }
		}
		return Verdict{Attempts: attempts, Steps: last + 1, Diff: fmt.Sprintf(
			"%s\nin %d executions of upstream the last step led to (-upstream +ours):\n%s", d.History, misses, diff())}
	}
}

// oursReaches reports whether ours reaches the state of upstream in another task order.
func (p Pair[S, W, M]) oursReaches(h History[S], upstream State, times int, mutation M) bool {
	for seed := range times {
		states := p.Ours(h, sim.NewSeeded(uint64(seed)), mutation).States
		if slices.Equal(states[len(states)-1], upstream) {
			return true
		}
	}
	return false
}
