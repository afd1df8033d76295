package scenario_test

import (
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// A kubelet that is killed at any suspension of mapping or unmapping a device, and one whose calls and work on the disk fail in
// any place, leave it as it must be in the end; so does a node that boots.
func TestBlockVolumeOutlivesKubelets(t *testing.T) {
	testcheck.Stepped(t)
	s, err := scenario.Find("block-volume-moves")
	if err != nil {
		t.Fatal(err)
	}
	for _, search := range []struct {
		strategy explore.Strategy
		faults   string
	}{
		{explore.Restarts, "crash(kubelet(node-1), 1)"},
		{explore.Faults, "driver-lost Internal(0.05), reboot(node-1, 1)"},
	} {
		risks, err := sim.ParseFaultSpecs(search.faults)
		if err != nil {
			t.Fatal(err)
		}
		report, err := explore.Search(t.Context(), s, explore.Config{Strategy: search.strategy, Faults: risks})
		if err != nil {
			t.Fatal(err)
		}
		if f := report.Failure; f != nil {
			t.Fatalf("%s: fails:\n%s", search.strategy, scenario.Story(f.Scenario, f.Result))
		}
		t.Logf("%s: %d schedules: %s", search.strategy, report.Schedules, report.Complete)
		if report.Schedules < 100 || report.Complete == "" {
			t.Errorf("%s: %d schedules, searched %q", search.strategy, report.Schedules, report.Complete)
		}
	}
}
