package simtest_test

import (
	"fmt"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/simtest"
)

// noisy is two claims and a volume, among so many pairs of a claim and a volume that have nothing to do with them.
func noisy(t *testing.T, pairs int) *scenario.Scenario {
	t.Helper()
	text := `
components: pvcontroller
ends: differ
user admin
  create volume v1 1Gi
user alice
  create claim c1 1Gi class=
user bob
  create claim c2 1Gi class=
`
	for i := range pairs {
		text += fmt.Sprintf(`
user other%d
  create volume w%[1]d 1Gi class=of%[1]d
  create claim d%[1]d 1Gi class=of%[1]d
`, i+1)
	}
	return simtest.Parse(t, text)
}

// What is unrelated does not hide a failure: the number of schedules until it is found stays within twice.
func TestNoiseDoesNotHideAFailure(t *testing.T) {
	testcheck.Stepped(t)
	found := func(pairs int) *explore.Failure {
		s := noisy(t, pairs)
		s.Interceptors, s.Extra = careless, []cluster.Component{reserver}
		r, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds})
		if err != nil || r.Failure == nil {
			t.Fatalf("with %d pairs beside: %v, %v", pairs, r, err)
		}
		return r.Failure
	}
	alone, among := found(0), found(10)
	t.Logf("%d schedules alone, under %q; %d among 10 pairs, under %q", alone.Schedules, alone.Scenario.Schedule,
		among.Schedules, among.Scenario.Schedule)
	if a, b := alone.Schedules, among.Schedules; b > 2*a || a > 2*b {
		t.Errorf("%d schedules alone and %d among 10 pairs: want at most twice as many", a, b)
	}
}
