package histories

import (
	"fmt"
	"slices"
	"testing"

	"github.com/volsim/volsim/sim"
)

// Pair is ours and upstream's. C is what makes ours another one, where a mutant is to be found.
type Pair[S fmt.Stringer, W, C any] struct {
	// Ours lives through a history: in the ordinary course of things where chooser is nil.
	Ours func(h History[S], chooser sim.Chooser, spoil C) Execution[W]
	// Upstream lives through a history for as long as its states are as wanted.
	Upstream func(t *testing.T, h History[S], want []State) Execution[W]
	// Excuse says why a difference may be; "" if it may not.
	Excuse func(Delta[S, W]) string
	// Violation says what ours must never do and did; "": nothing. nil: there is no such thing.
	Violation func(W) string
}

// Patience is how many lives are given.
type Patience struct {
	Upstream int // to do what ours did
	Ours     int // to do what upstream did, its strands being moved in other orders
}

// How many lives are given usually, before a difference is believed, while one that was found is made smaller, and while one of a
// mutant is.
var (
	Thorough = Patience{Upstream: 5, Ours: 30}
	Stubborn = Patience{Upstream: 40, Ours: 60}
	Hasty    = Patience{Upstream: 8, Ours: 20}
	Hastier  = Patience{Upstream: 8, Ours: 6}
)

// Verdict is what a comparison came to.
type Verdict struct {
	Attempts  int    // of upstream's
	Diff      string // "": none
	Steps     int    // how many steps it took to the difference
	Undecided string // why the history was not compared to its end; "": it was
}

// Compare lets both live through a history, and upstream again where it did otherwise than ours.
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

// oursReaches tells whether ours comes to what upstream came to when its strands are moved in some other order.
func (p Pair[S, W, C]) oursReaches(h History[S], upstream State, times int, spoil C) bool {
	for seed := range times {
		states := p.Ours(h, sim.NewSeeded(uint64(seed)), spoil).States
		if slices.Equal(states[len(states)-1], upstream) {
			return true
		}
	}
	return false
}
