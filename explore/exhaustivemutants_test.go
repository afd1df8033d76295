package explore_test

import (
	"cmp"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/internal/testcheck"
)

// exhaustiveSchedules bounds the schedules of an exhaustive search for most mutants.
const exhaustiveSchedules = 300

// exhaustiveNeeds has other bounds: about twice the number of schedules until a mutant is found.
var exhaustiveNeeds = map[string]int{
	"a volume is bound without a resourceVersion precondition":        1_400,
	"a plugin deletes the directory of a stale version of the volume": 3_000,
}

// exhaustiveMisses are mutants that the search was not seen to find: the second in 20,000 schedules, the
// others in fewer. It does not end in their worlds either.
var exhaustiveMisses = map[string]bool{
	"the older one of two default classes is assigned":          true,
	"pods are listed once for several claims":                   true,
	"a hostPath volume has no finalizer":                        true,
	"a volume is deleted without a UID precondition":            true,
	"a second controller attaches without checking other nodes": true,
	"the controller of budgets forgets evicted pods":            true,
	"the successor of a victim is preempted":                    true,
	"the record of a full node shows space":                     true,
}

// TestExhaustiveFindsMutants checks that the exhaustive search finds the mutants that a search by holds
// finds. If it ends without a failure, it has left out an order that matters. With -table it also
// searches for those that it misses.
func TestExhaustiveFindsMutants(t *testing.T) {
	testcheck.Stepped(t)
	for _, m := range everyMutant() {
		if m.config.Strategy != explore.Holds || exhaustiveMisses[m.name] && !*wholeTable {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cfg := explore.Config{
				Strategy: explore.Exhaustive, NoFaults: true, Rule: m.rule, ShrinkRuns: 1,
				Count: cmp.Or(exhaustiveNeeds[m.name], exhaustiveSchedules),
			}
			if exhaustiveMisses[m.name] {
				cfg.Count = 20_000
			}
			r, err := explore.Search(t.Context(), m.scene(t, true, ""), cfg)
			switch {
			case err != nil:
				t.Fatal(err)
			case r.Complete != "":
				t.Errorf("%d schedules: %s, but holds find a violation of %s", r.Schedules, r.Complete, m.rule)
			case r.Failure != nil:
				t.Logf("found in %d of %d", r.Failure.Schedules, cfg.Count)
			case exhaustiveMisses[m.name]:
				t.Logf("not found in %d", r.Schedules)
			default:
				t.Errorf("not found in %d schedules", r.Schedules)
			}
		})
	}
}
