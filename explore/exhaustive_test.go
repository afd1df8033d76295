package explore

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// TestPruningKnownStatesLosesNone checks that a search that stops at known states reaches the same
// states as one that runs every order to its end.
func TestPruningKnownStatesLosesNone(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range []struct {
		name, text string
		bound      int
	}{
		{"one claim", "components: pvcontroller\nuser a\n  create volume v 1Gi\nuser b\n  create claim c 1Gi class=\n", 2},
		{"two claims", "components: pvcontroller\nends: differ\nuser a\n  create volume v 1Gi\nuser b\n  create claim c 1Gi class=\n  create claim d 1Gi class=\n", 1},
		{"a claim that goes", "components: pvcontroller, pvcprotection\nends: differ\nuser a\n  create volume v 1Gi\n  create claim c 1Gi class=\n  delete claim c\n", 1},
		{"provisioned", "components: pvcontroller, provisioner\nuser a\n  create claim c 1Gi\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := scenario.Parse(tt.name, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			var met [2]map[uint64]int
			var schedules [2]int
			for i, blind := range []bool{false, true} {
				e, err := newSearch(t.Context(), s, Config{Strategy: Exhaustive, Count: 200_000})
				if err != nil {
					t.Fatal(err)
				}
				if err := e.runDefault(); err != nil {
					t.Fatal(err)
				}
				met[i] = map[uint64]int{}
				if err := e.exhaust(tt.bound, met[i], blind); err != nil || e.report.Failure != nil {
					t.Fatal(err, e.report.Failure)
				}
				schedules[i] = e.report.Schedules
			}
			t.Logf("%d states in %d schedules; running every order to its end takes %d",
				len(met[0]), schedules[0], schedules[1])
			if !slices.Equal(slices.Sorted(maps.Keys(met[0])), slices.Sorted(maps.Keys(met[1]))) {
				t.Errorf("%d states, but %d when every order is run to its end", len(met[0]), len(met[1]))
			}
			if schedules[0] > schedules[1] {
				t.Errorf("pruning took %d schedules, no pruning %d", schedules[0], schedules[1])
			}
		})
	}
}

// TestExhaustiveCrashesWithOldLists checks that a search of all orders of events with a crash includes those in
// which the process begins again with an old list.
func TestExhaustiveCrashesWithOldLists(t *testing.T) {
	s, err := scenario.Parse(tinyWorlds[0].name, tinyWorlds[0].text)
	if err != nil {
		t.Fatal(err)
	}
	fresh, old := 0, 0
	r, err := Search(t.Context(), s, Config{Strategy: Exhaustive, Restarts: true, Watch: func(c *cluster.Cluster) {
		c.Trace().Watch(func(r trace.Record) {
			switch words := r.Action.String(); {
			case r.Kind != trace.KindEvent || !strings.Contains(words, crashEvent):
			case strings.Contains(words, "behind"):
				old++
			default:
				fresh++
			}
		})
	}})
	t.Logf("%s; %d crashes with fresh lists, %d with old ones", r.Complete, fresh, old)
	if err != nil || r.Complete == "" || fresh == 0 || old == 0 {
		t.Errorf("%v, complete: %q, %d crashes with fresh lists, %d with old ones; want some", err, r.Complete, fresh, old)
	}
}
