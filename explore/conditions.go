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

// AddConditions adds what was noted in other schedules, to sum up several searches.
func (r *Report) AddConditions(more []trace.Condition) {
	sums := r.Conditions
	for _, c := range more {
		i, found := slices.BinarySearchFunc(sums, c.Name, func(sum trace.Condition, name string) int { return cmp.Compare(sum.Name, name) })
		if !found {
			sums = slices.Insert(sums, i, trace.Condition{Name: c.Name})
		}
		sums[i].Calls += c.Calls
		sums[i].Held += c.Held
	}
	r.Conditions = sums
}

// named returns conditions that a scenario names, without calls.
func named(names []string) []trace.Condition {
	var all []trace.Condition
	for _, name := range names {
		all = append(all, trace.Condition{Name: name})
	}
	return all
}
