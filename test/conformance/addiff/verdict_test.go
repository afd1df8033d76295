package addiff

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

// patience is how many lives are given.
type patience struct {
	upstream int // to do what ours did: the order of its maps may matter
	ours     int // to do what upstream did, its strands being moved in other orders
}

var (
	thorough = patience{upstream: 30, ours: 30}
	stubborn = patience{upstream: 200, ours: 100} // before a difference is believed
	hasty    = patience{upstream: 6, ours: 6}     // while a difference that was found is made smaller
)

type verdict = histories.Verdict

// compare lets both controllers live through a history, and upstream again where it did otherwise than ours.
func compare(t *testing.T, h history, p patience, spoil spoil) verdict {
	mine := newOurs(nil, spoil).live(h)
	want := mine.states
	if twice := mine.facts.twice(); len(twice) > 0 {
		return verdict{Steps: len(h), Diff: fmt.Sprintf("%s\nours attached to a second node, while it had an attachment to one: %v", h, twice)}
	}
	furthest, misses := 0, 0
	for lives := 1; ; lives++ {
		got := liveUpstream(t, h, want)
		last := len(got.states) - 1
		switch {
		case got.chatty:
			return verdict{Attempts: lives, Undecided: "upstream's recorder may have dropped an event"}
		case slices.Equal(got.states[last], want[last]):
			return verdict{Attempts: lives}
		case last > furthest:
			furthest, misses = last, 0
		}
		if last < furthest {
			if lives < 10*p.upstream {
				continue
			}
			return verdict{Attempts: lives, Undecided: "too many ties"}
		}
		misses++
		d := delta{h[:last+1], got.states[last], want[last], got.facts, mine.facts}
		if what := deliberate(d); what != "" {
			return verdict{Attempts: lives, Undecided: what}
		}
		if misses < p.upstream {
			continue
		}
		if couldBe(h[:last+1], got.states, p.ours, spoil) {
			return verdict{Attempts: lives, Undecided: "in another order ours does what upstream does"}
		}
		return verdict{Attempts: lives, Steps: last + 1, Diff: fmt.Sprintf("%s\nin %d lives of upstream's the last step was followed by (-upstream +ours):\n%s",
			h[:last+1], misses, d)}
	}
}

// couldBe tells whether our controller does what upstream did when its strands are moved in some other order.
func couldBe(h history, upstream []state, times int, spoil spoil) bool {
	last := len(upstream) - 1
	for seed := range times {
		states := newOurs(sim.NewSeeded(uint64(seed)), spoil).live(h).states
		if slices.Equal(states[last], upstream[last]) {
			return true
		}
	}
	return false
}

// onlyIn are the lines of one state that the other has not.
func onlyIn(a, b state) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

// delta is two states after the same history.
type delta struct {
	history        history
	upstream, ours state
	facts, mine    *observer // of upstream's world, and of ours
}

// String shows the lines that are in one state only.
func (d delta) String() string {
	var b strings.Builder
	for _, line := range onlyIn(d.upstream, d.ours) {
		b.WriteString("- " + line + "\n")
	}
	for _, line := range onlyIn(d.ours, d.upstream) {
		b.WriteString("+ " + line + "\n")
	}
	return b.String()
}
