package explore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

const twoByTwo = `
components: pvcontroller
user alice
  create volume v1 1Gi
  create volume v2 1Gi
user bob
  create claim c1 1Gi class=
  create claim c2 1Gi class=
`

func twoClaims(tb testing.TB) *scenario.Scenario {
	tb.Helper()
	s, err := scenario.Parse("two-claims", twoByTwo)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestSearchesComplete checks that each strategy completes for two claims and two volumes, and
// reports what it has searched.
func TestSearchesComplete(t *testing.T) {
	for _, tt := range []struct {
		cfg  explore.Config
		want string
	}{
		{explore.Config{Strategy: explore.Holds}, "no failure with at most 1 hold"},
		{explore.Config{Strategy: explore.Holds, Depth: 2}, "no failure with at most 2 holds"},
		{explore.Config{Strategy: explore.Restarts}, "no failure with one restart at a call of the default order"},
		{
			explore.Config{Strategy: explore.Exhaustive, Depth: 1},
			"no failure in any order of events with at most 1 deviation",
		},
		{explore.Config{Strategy: explore.Random, Count: 100}, ""},
		{explore.Config{Strategy: explore.PCT, Count: 100}, ""},
		{explore.Config{Strategy: explore.POS, Count: 100}, ""},
	} {
		r, err := explore.Search(t.Context(), twoClaims(t), tt.cfg)
		if err != nil || r.Failure != nil || r.Complete != tt.want {
			t.Errorf("%s %d: %+v, %v, want %q", tt.cfg.Strategy, tt.cfg.Depth, r, err, tt.want)
		}
		if tt.cfg.Count > 0 && r.Schedules != 100 {
			t.Errorf("%s: %d schedules, want 100", tt.cfg.Strategy, r.Schedules)
		}
	}
}

// TestLivelockInTheDefaultOrderIsAFailure checks that endless attempts to attach a volume that does
// not exist are a failure.
func TestLivelockInTheDefaultOrderIsAFailure(t *testing.T) {
	testcheck.Stepped(t)
	s, err := scenario.Parse("endless", `
nodes: 1
user alice
  create volume v1 1Gi
  create claim c1 1Gi class=
  create pod p1 c1
`)
	if err != nil {
		t.Fatal(err)
	}
	r, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds})
	var livelock *scenario.Livelock
	if err != nil || r.Failure == nil || !errors.As(r.Failure.Result.Failure, &livelock) {
		t.Errorf("found %+v, %v, want a livelock", r, err)
	}
}

// TestFaultSpecWithUnknownTarget checks that a fault spec with an unknown target is an error: it
// would never apply.
func TestFaultSpecWithUnknownTarget(t *testing.T) {
	t.Parallel()
	s, err := scenario.Find("driver-restarts")
	if err != nil {
		t.Fatal(err)
	}
	risks, err := sim.ParseFaultSpecs("crash(kubelet, 1)")
	if err != nil {
		t.Fatal(err)
	}
	_, err = explore.Search(t.Context(), s, explore.Config{Strategy: explore.Random, Count: 2, Faults: risks})
	if err == nil || !strings.Contains(err.Error(), `no such target "kubelet" (have `) ||
		!strings.Contains(err.Error(), "kubelet(node-1)") {
		t.Errorf("error %v does not name the missing kubelet and the existing kubelet(node-1)", err)
	}
}
