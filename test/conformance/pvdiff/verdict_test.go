package pvdiff

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

// patience is how many lives upstream is given.
type patience struct {
	plain int // to do what ours did, where there is nothing to choose among: the order of its workers may matter
	tie   int // where there is: a map of a few begins with the one wanted in one of eight times
	all   int // there may be several ties
	other int // how many other courses of things ours is given, to do what upstream did
}

var (
	thorough = patience{plain: 30, tie: 60, all: 240, other: 50}
	stubborn = patience{plain: 200, tie: 600, all: 2000, other: 300} // before a difference is believed
	hasty    = patience{plain: 3, tie: 12, all: 40, other: 10}       // while a difference that was found is made smaller
)

type verdict = histories.Verdict

// compare lets both controllers live through a history, and upstream again where it did otherwise than ours and may have
// had the choice.
func compare(t *testing.T, h history, p patience, spoil spoil) verdict {
	want := newOurs(nil, spoil).live(h)
	misses := make([]int, len(want)) // by step: lives that were like ours until then
	for lives := 1; ; lives++ {
		got := liveUpstream(t, h, want)
		last := len(got.states) - 1
		switch {
		case got.chatty:
			return verdict{Attempts: lives, Undecided: "upstream's recorder may have dropped an event"}
		case slices.Equal(got.states[last], want[last]):
			return verdict{Attempts: lives}
		}
		misses[last]++
		enough := p.plain
		if mayTie(want[last]) {
			enough = p.tie
		}
		switch {
		case isFurthest(misses, last) && misses[last] >= enough:
			if what := deliberate(got.states[last], want[last]); what != "" {
				return verdict{Attempts: lives, Undecided: what}
			}
			if asked(got.states[last], want[last]) && couldBe(h, got.states, p.other, spoil) {
				return verdict{Attempts: lives, Undecided: "in another order ours does what upstream does"}
			}
			return verdict{Attempts: lives, Steps: last + 1, Diff: fmt.Sprintf("%s\nin %d lives of upstream's the last step was followed by (-upstream +ours):\n%s",
				h[:last+1], misses[last], difference(got.states[last], want[last]))}
		case lives == p.all:
			return verdict{Attempts: lives, Undecided: "too many ties"}
		}
	}
}

func isFurthest(misses []int, step int) bool {
	return !slices.ContainsFunc(misses[step+1:], func(n int) bool { return n > 0 })
}

// asked tells whether it is asked what ours could do: where both came to the same objects, and only told other things on the
// way; or where there was a choice, and others were bound to one another.
func asked(upstream, ours []string) bool {
	return slices.Equal(objects(upstream), objects(ours)) ||
		mayTie(ours) && !slices.Equal(bindings(upstream), bindings(ours))
}

// couldBe tells whether our controller does what upstream did when its strands are moved in some other order.
func couldBe(h history, upstream [][]string, times int, spoil spoil) bool {
	last := len(upstream) - 1
	for seed := range times {
		states := newOurs(sim.NewSeeded(uint64(seed)), spoil).live(h[:last+1])
		if slices.Equal(states[len(states)-1], upstream[last]) {
			return true
		}
	}
	return false
}

// objects are the lines of a state but for events.
func objects(state []string) []string {
	return slices.DeleteFunc(slices.Clone(state), func(line string) bool { return strings.HasPrefix(line, "event ") })
}

// mayTie tells whether a world has anything to choose among: who is bound to whom, or who is looked at first.
func mayTie(state []string) bool {
	return count(state, "claim ") > 1 || count(state, "volume ") > 1
}

func count(state []string, prefix string) (n int) {
	for _, line := range state {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// bindings are the parts of a state that tell of who is bound to whom.
func bindings(state []string) []string {
	var parts []string
	for _, line := range objects(state) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.HasPrefix(part, `"volumeName"`) || strings.HasPrefix(part, `"claimRef"`) || strings.Contains(part, "<volumeclaims/") {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

// onlyIn are the lines of one state that the other has not.
func onlyIn(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

// difference shows the lines that are in one state only.
func difference(upstream, ours []string) string {
	var b strings.Builder
	u, o := onlyIn(upstream, ours), onlyIn(ours, upstream)
	for len(u) > 0 && len(o) > 0 && about(u[0]) == about(o[0]) {
		b.WriteString(about(u[0]) + "\n" + cmp.Diff(strings.Split(u[0], ","), strings.Split(o[0], ",")))
		u, o = u[1:], o[1:]
	}
	for _, line := range u {
		b.WriteString("- " + line + "\n")
	}
	for _, line := range o {
		b.WriteString("+ " + line + "\n")
	}
	return b.String()
}

// about is what a line of a state is about.
func about(line string) string {
	if strings.HasPrefix(line, "event ") {
		return line
	}
	head, _, _ := strings.Cut(line, ",")
	return head
}
