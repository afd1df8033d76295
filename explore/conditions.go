package explore

import (
	"cmp"
	"slices"

	"github.com/volsim/volsim/sim/trace"
)

// Never returns the conditions that held in no schedule, by name: those of trace.Sometimes, and those
// that the scenario names and that no schedule reached.
func (r Report) Never() []trace.Condition {
	return slices.DeleteFunc(slices.Clone(r.Conditions), func(c trace.Condition) bool { return c.Held > 0 })
}

// addConditions adds what was noted in a run to sums, which are sorted by name.
func addConditions(sums, more []trace.Condition) []trace.Condition {
	for _, c := range more {
		i, found := slices.BinarySearchFunc(sums, c.Name, func(sum trace.Condition, name string) int { return cmp.Compare(sum.Name, name) })
		if !found {
			sums = slices.Insert(sums, i, trace.Condition{Name: c.Name})
		}
		sums[i].Calls += c.Calls
		sums[i].Held += c.Held
	}
	return sums
}

// named returns conditions that a scenario names, without calls.
func named(names []string) []trace.Condition {
	var all []trace.Condition
	for _, name := range names {
		all = append(all, trace.Condition{Name: name})
	}
	return addConditions(nil, all)
}
