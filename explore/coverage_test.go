package explore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// covered searches a small world and returns what was exercised.
func covered(t *testing.T, cfg explore.Config) []explore.Coverage {
	t.Helper()
	s, err := scenario.Parse("small", "nodes: 1\ncomponents: pvcontroller\nrules: I1\nends: differ\nuser alice\n  create volume disk 1Gi\n  create claim data 1Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Coverage = true
	r, err := explore.Search(t.Context(), s, cfg)
	if err != nil || r.Failure != nil {
		t.Fatal(r.Failure, err)
	}
	return r.Coverage
}

// point returns a circumstance of a call.
func point(t *testing.T, all []explore.Coverage, call, circumstance string) explore.CoveragePoint {
	t.Helper()
	for _, c := range all {
		i := slices.IndexFunc(c.Points, func(p explore.CoveragePoint) bool { return p.String() == circumstance })
		if c.Component == "pvcontroller" && c.Call == call && i >= 0 {
			return c.Points[i]
		}
	}
	t.Fatalf("no %q of %q in\n%s", circumstance, call, explore.CoverageTable(all))
	panic("unreachable")
}

// TestCoverage checks which circumstances of calls a search counts.
func TestCoverage(t *testing.T) {
	const call = "update persistentvolumeclaims"
	once := covered(t, explore.Config{Count: 1, NoFaults: true})
	testcheck.Equal(t, "default order: nothing stale", 1, point(t, once, call, "no fault").Times)
	testcheck.Equal(t, "default order: table", true, strings.Contains(explore.CoverageTable(once), call))

	held := covered(t, explore.Config{Strategy: explore.Holds, NoFaults: true})
	if n := point(t, held, call, "stale persistentvolumes").Times; n == 0 {
		t.Errorf("no hold made the cache of volumes stale:\n%s", explore.CoverageTable(held))
	}

	faults, err := sim.ParseFaultSpecs("conflict(0.1), crash(1)")
	if err != nil {
		t.Fatal(err)
	}
	failed := covered(t, explore.Config{Strategy: explore.Faults, Faults: faults})
	for _, fault := range []string{"conflict", "crash", "crash with old lists"} {
		if n := point(t, failed, call, fault).Times; n == 0 {
			t.Errorf("no %s:\n%s", fault, explore.CoverageTable(failed))
		}
	}
	onlyCrash := covered(t, explore.Config{Strategy: explore.Restarts, Restarts: true, NoFaults: true})
	for _, c := range onlyCrash {
		for _, p := range c.Points {
			if p.Fault == "conflict" {
				t.Errorf("a fault that the search does not inject is listed: %v", p)
			}
		}
	}
}

// TestCoverageTable checks what the table says was never reached.
func TestCoverageTable(t *testing.T) {
	got := explore.CoverageTable([]explore.Coverage{
		{Component: "a", Call: "update pods", Times: 3, Points: []explore.CoveragePoint{
			{Times: 3},
			{Stale: "nodes"},
			{Stale: "pods", Times: 1},
			{Fault: "conflict"},
			{Fault: "conflict", Stale: "nodes"},
			{Fault: "conflict", Stale: "pods"},
			{Fault: "lost", Times: 1},
			{Fault: "lost", Stale: "nodes"},
			{Fault: "lost", Stale: "pods"},
			{Fault: "refused"},
			{Fault: "refused", Stale: "nodes", Times: 1},
			{Fault: "refused", Stale: "pods", Times: 1},
		}},
		{Component: "b", Call: "CreateVolume", Times: 1, Points: []explore.CoveragePoint{{Times: 1}}},
	})
	want := "" +
		"COMPONENT  CALL          TIMES  REACHED  NEVER\n" +
		"a          update pods   3      5 of 12  stale nodes; conflict; lost with stale pods; refused with nothing stale\n" +
		"b          CreateVolume  1      1 of 1   -\n"
	testcheck.Equal(t, "table", want, got)
}

// TestCoverageNeedsOneJob checks the error for several jobs.
func TestCoverageNeedsOneJob(t *testing.T) {
	s, err := scenario.Find("two-claims-two-volumes")
	if err != nil {
		t.Fatal(err)
	}
	_, err = explore.Search(t.Context(), s, explore.Config{Jobs: 2, Coverage: true})
	testcheck.Equal(t, "error", true, err != nil && strings.Contains(err.Error(), "want one job"))
}
