package pvdiff

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/test/conformance/histories"
)

type (
	history = histories.History[step]
	delta   = histories.Delta[step, *world]
)

// If volumes or claims may tie, upstream is executed more often: a map of a few entries begins with
// the wanted one in one of eight cases.
var pair = histories.Pair[step, *world, mutation]{
	Ours: runOurs, Upstream: runUpstream, Excuse: excuse, ExcuseLast: true,
	MayTie: mayTie, MayReorder: mayReorder, Diff: diff,
	Limits: histories.Limits{
		First:        histories.Patience{Upstream: 30, Tie: 60, Total: 240, Ours: 50},
		Confirm:      histories.Patience{Upstream: 200, Tie: 600, Total: 2000, Ours: 300},
		Shrink:       histories.Patience{Upstream: 3, Tie: 12, Total: 40, Ours: 10},
		ShrinkMutant: histories.Patience{Upstream: 3, Tie: 12, Total: 40, Ours: 10},
	},
}

func TestMain(m *testing.M) { histories.Main(m) }

// TestHistories compares 2,000 histories.
func TestHistories(t *testing.T) { pair.Run(t, 20, drawHistory, 20) }

// mayTie reports whether several volumes or claims exist, so that the order in which they are
// processed may matter.
func mayTie(state histories.State) bool {
	return count(state, "claim ") > 1 || count(state, "volume ") > 1
}

func count(state histories.State, prefix string) (n int) {
	for _, line := range state {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// mayReorder reports whether the order of ours may explain a difference: only events differ, or
// bindings differ and there may be a tie.
func mayReorder(d delta) bool {
	return sameObjects(d) || mayTie(d.Ours) && !slices.Equal(bindings(d.Upstream), bindings(d.Ours))
}

func sameObjects(d delta) bool { return slices.Equal(objects(d.Upstream), objects(d.Ours)) }

// objects returns the lines of a state that are not events.
func objects(state histories.State) []string {
	return slices.DeleteFunc(slices.Clone(state), func(line string) bool { return strings.HasPrefix(line, "event ") })
}

// bindings returns the fields of a state that bind claims and volumes.
func bindings(state histories.State) []string {
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

// diff returns the lines that only one of the states has, and the differences of lines about the
// same object.
func diff(d delta) string {
	var b strings.Builder
	u, o := d.Upstream.Without(d.Ours), d.Ours.Without(d.Upstream)
	for len(u) > 0 && len(o) > 0 && subject(u[0]) == subject(o[0]) {
		b.WriteString(subject(u[0]) + "\n" + cmp.Diff(strings.Split(u[0], ","), strings.Split(o[0], ",")))
		u, o = u[1:], o[1:]
	}
	return b.String() + delta{Upstream: u, Ours: o}.String()
}

// subject returns what a line of a state is about.
func subject(line string) string {
	if strings.HasPrefix(line, "event ") {
		return line
	}
	head, _, _ := strings.Cut(line, ",")
	return head
}
