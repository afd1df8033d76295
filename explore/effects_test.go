package explore

import (
	"cmp"
	"slices"
	"testing"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestEffectsFollowFromWhatAProcessKnows makes each local step from each state, and compares its effect with
// the one that it had when the process knew the same before.
func TestEffectsFollowFromWhatAProcessKnows(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range blockWorlds {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Parse(tt.name, "ends: differ\n"+tt.text)
			if err != nil {
				t.Fatal(err)
			}
			e, err := newSearch(t.Context(), s, Config{Strategy: Exhaustive, Count: 100_000, Restarts: tt.restarts})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.runDefault(); err != nil {
				t.Fatal(err)
			}
			kinds := []mishap{noMishap}
			if tt.restarts {
				kinds = append(kinds, faultOrCrash)
			}
			for _, kind := range kinds {
				o, compared := newOrders(e, kind), 0
				o.compare = func(known, made effect) {
					compared++
					if known.then != made.then || !slices.Equal(sortedSteps(known.own), sortedSteps(made.own)) ||
						!slices.Equal(o.memoryOf(known), o.memoryOf(made)) {
						t.Errorf("%v, earlier %v", made, known)
					}
				}
				if err := o.all(); err != nil || e.report.Failure != nil {
					t.Fatal(err, e.report.Failure)
				}
				t.Logf("%d schedules, %d effects, %d compared", e.report.Schedules, len(o.effects), compared)
				if compared == 0 {
					t.Error("no effects are compared")
				}
			}
		})
	}
}

// memoryOf returns what a step uses of the memory of its process. A delivery also reads a version of an
// object, of which two with one content may be taken for each other: nothing else uses either from then on.
func (o *orders) memoryOf(e effect) footprint {
	return slices.DeleteFunc(slices.Clone(e.uses), func(u use) bool { return o.parts.processes[u.part] == "" })
}

func sortedSteps(steps []stepID) []stepID {
	return slices.SortedFunc(slices.Values(steps), func(a, b stepID) int {
		return cmp.Or(cmp.Compare(a.task, b.task), a.which-b.which, cmp.Compare(a.fault, b.fault))
	})
}
