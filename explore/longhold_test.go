package explore_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// In a world of all components, more steps than a hold lasts for lie between two acts of a user. A
// cache that must be behind from one act to the next is found all the same, soon.
func TestHoldLastsUntilNextAct(t *testing.T) {
	testcheck.Stepped(t)
	t.Parallel()
	s, err := scenario.Parse("next-act", podLife)
	testcheck.NoError(t, err)
	known := false
	s.Extra = []cluster.Component{{Name: "auditor", Start: func(p cluster.ComponentContext) error {
		known = false
		_, err := p.Informers.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { known = known || obj.(*corev1.Pod).Name == "web" },
		})
		return err
	}}}
	s.OwnRules = []invariant.Rule{{ID: "audited", Forbids: "that a claim is deleted before the auditor knows of a pod that used it", Begin: func(invariant.World) invariant.Checks {
		return invariant.Checks{Commit: func(e fake.Commit) error {
			if e.Resource == "persistentvolumeclaims" && e.After.GetDeletionTimestamp() != nil && !known {
				return errors.New("it does not know of the pod")
			}
			return nil
		}}
	}}}
	report, err := explore.Search(t.Context(), s, explore.Config{NoFaults: true, Count: 2000, Rule: "audited"})
	testcheck.NoError(t, err)
	f := report.Failure
	if f == nil {
		t.Fatalf("not found in %d schedules", report.Schedules)
	}
	t.Logf("%s: %s", f.Found(), f.Scenario.Schedule)
	if len(f.Scenario.Schedule) != 1 || f.Scenario.Schedule[0].What != sim.DeviationHoldUntilIdle || f.Schedules > 300 {
		t.Errorf("found in schedule %d, under %s", f.Schedules, f.Scenario.Schedule)
	}
	read, err := scenario.Parse("again", f.Scenario.String())
	testcheck.NoError(t, err)
	r, err := explore.Replay(t.Context(), read.WithGo(f.Scenario))
	testcheck.NoError(t, err)
	if r.Mismatch != "" || scenario.RuleID(r.Failure) != "audited" {
		t.Errorf("replayed: %v, %s", r.Failure, r.Mismatch)
	}
}
