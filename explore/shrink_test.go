package explore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
)

// noDeletion forbids to delete claims.
var noDeletion = invariant.Rule{
	ID: "keep", Forbids: "a claim is deleted", Begin: func(invariant.World) invariant.Checks {
		return invariant.Checks{Commit: func(e fake.Commit) error {
			if e.Resource == "persistentvolumeclaims" && e.Before != nil && e.After != nil && e.After.GetDeletionTimestamp() != nil {
				return errors.New(e.After.GetName() + " is")
			}
			return nil
		}}
	},
}

// Shrinking stops at its bound, and the failure says so.
func TestShrinkingIsBounded(t *testing.T) {
	s := changed(fake.ReadCache, oneSecret("one", func(secrets func() int) invariant.Checks {
		return invariant.Checks{AtRest: func() error {
			if secrets() > 1 {
				return errors.New("there are two")
			}
			return nil
		}}
	}))
	for _, c := range []struct {
		runs    int
		stopped bool
	}{{0, false}, {1, true}, {6, true}} {
		report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Random, Seed: 1, ShrinkRuns: c.runs})
		testcheck.NoError(t, err)
		f := report.Failure
		if f == nil {
			t.Fatal("no failure")
		}
		if f.ShrinkStopped != c.stopped || c.runs > 0 && f.ShrinkRuns > c.runs {
			t.Errorf("%d runs: %d made, stopped: %t, schedule %q", c.runs, f.ShrinkRuns, f.ShrinkStopped, f.Scenario.Schedule)
		}
		if said := strings.Contains(f.Found(), "up to the bound (a shorter schedule may exist)"); said != c.stopped {
			t.Errorf("%d runs: %s", c.runs, f.Found())
		}
		if !c.stopped && len(f.Scenario.Schedule) != 1 {
			t.Errorf("shrunk to %q", f.Scenario.Schedule)
		}
	}
}

// A failure names the components, nodes and acts that it needs.
func TestSmallerWorld(t *testing.T) {
	s, err := scenario.Parse("large", `
nodes: 3
user alice
  create volume disk 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  delete claim data
  create claim more 1Gi class=
user bob
  create pod web data on=node-2
user carol
  wait pod none Running
  create class late
`)
	testcheck.NoError(t, err)
	s.OwnRules, s.OutcomesDiffer = []invariant.Rule{noDeletion}, true
	s.Extra = []cluster.Component{creator(fake.ReadCache)}
	report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, Rule: "keep"})
	testcheck.NoError(t, err)
	const want = "; a smaller world to try: components: pvcontroller, attachdetach, attacher; no component operator; nodes: 2; " +
		"no \"create claim more 1Gi class=\" of user alice, nor what follows; no \"create class late\" of user carol, nor what follows"
	if f := report.Failure; f == nil || !strings.HasSuffix(f.Found(), want) {
		t.Errorf("%v: %s", f, f.Found())
	}
	s.Components, s.Nodes, s.Users, s.Extra = []string{"pvcontroller"}, 1, s.Users[:1], nil
	s.Users[0].Acts, s.Users[0].Script = s.Users[0].Acts[:3], func(ctx context.Context, c *cluster.Cluster) error {
		return c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{})
	}
	report, err = explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, Rule: "keep"})
	testcheck.NoError(t, err)
	if f := report.Failure; f == nil || strings.Contains(f.Found(), "smaller") {
		t.Errorf("%v: %s", f, f.Found())
	}
}
