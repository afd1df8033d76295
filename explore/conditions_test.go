package explore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim/trace"
)

// aware is a component that notes what it meets: a claim that is deleted while it works on it.
func aware() cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "aware", For: "persistentvolumeclaims",
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				claims := p.Client.CoreV1().PersistentVolumeClaims(key.Namespace)
				if claim, err := claims.Get(ctx, key.Name, metav1.GetOptions{}); err != nil || claim.Labels["seen"] != "" {
					return 0, nil
				}
				_, err := claims.Patch(ctx, key.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{})
				trace.Sometimes(ctx, "the claim is gone before the patch", err != nil)
				if err != nil {
					trace.Reachable(ctx, "an error")
				}
				return 0, nil
			}, nil
		},
	})
}

// vigilant is a rule that notes whether it had something to check.
func vigilant() invariant.Rule {
	return invariant.Rule{ID: "vigilant", Forbids: "nothing", Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{Commit: func(e fake.Commit) error {
			m, err := meta.Accessor(e.After)
			if err != nil {
				return errors.New("an object without metadata")
			}
			w.Log.Sometimes("an object is labeled", m.GetLabels()["seen"] != "")
			return nil
		}}
	}}
}

// awareScene returns a world of the component, in which bob deletes a claim.
func awareScene(t *testing.T) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("aware", "components: aware, pvcprotection\nrules: I1\nends: differ\nsometimes: nothing of the kind\nuser alice\n  create claim data 1Gi\n  delete claim data\n")
	if err != nil {
		t.Fatal(err)
	}
	s.Extra = []cluster.Component{aware()}
	s.OwnRules = []invariant.Rule{vigilant()}
	return s
}

// TestSometimes checks that a search reports what held in none of its schedules.
func TestSometimes(t *testing.T) {
	never := func(cfg explore.Config) string {
		r, err := explore.Search(t.Context(), awareScene(t), cfg)
		if err != nil || r.Failure != nil {
			t.Fatal(r.Failure, err)
		}
		words := ""
		for _, c := range r.Never() {
			words += fmt.Sprintf("%s: %t\n", c.Name, c.Calls > 0)
		}
		return words
	}
	testcheck.Equal(t, "default order", "nothing of the kind: false\nthe claim is gone before the patch: true\n", never(explore.Config{Count: 1}))
	testcheck.Equal(t, "holds", "nothing of the kind: false\n", never(explore.Config{Strategy: explore.Holds}))
}

// TestSometimesOfJobs checks that the conditions do not depend on the number of jobs.
func TestSometimesOfJobs(t *testing.T) {
	s, err := scenario.Parse("named", "components: pvcontroller\nrules: I1\nends: differ\nsometimes: a thing\nuser alice\n  create volume disk 1Gi\n  create claim data 1Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, jobs := range []int{1, 2} {
		r, err := explore.Search(t.Context(), s, explore.Config{Count: 20, Jobs: jobs})
		if err != nil {
			t.Fatal(err)
		}
		testcheck.Equal(t, fmt.Sprintf("%d jobs", jobs), "[{a thing 0 0}]", fmt.Sprint(r.Conditions))
	}
	again, err := scenario.Parse("named", s.String())
	if err != nil {
		t.Fatal(err)
	}
	testcheck.Equal(t, "text", s.String(), again.String())
}

// TestRulesNoteWhatTheyMet checks the conditions of built-in rules: a scenario of the book in which each
// holds, and one in which it is noted and never holds.
func TestRulesNoteWhatTheyMet(t *testing.T) {
	testcheck.Stepped(t)
	for _, row := range []struct{ condition, holds, never string }{
		{"I16: a volume is detached from a lost node that has it mounted", "node-dies-under-a-set", "node-is-lost"},
		{"I28: a claim is deleted while a scheduled pod uses it", "claim-deleted-while-pod-starts", ""},
		{"I28: a volume is deleted while it is Bound", "volume-deleted-before-claim", "directory-provisioned"},
	} {
		if c := noted(t, row.holds, row.condition); c.Held == 0 {
			t.Errorf("%s: %q holds in %d of %d calls, want some", row.holds, row.condition, c.Held, c.Calls)
		}
		if c := noted(t, row.never, row.condition); row.never != "" && (c.Calls == 0 || c.Held > 0) {
			t.Errorf("%s: %q holds in %d of %d calls, want calls, and none that holds", row.never, row.condition, c.Held, c.Calls)
		}
	}
}

// noted searches a scenario of the book, and returns what was noted of a condition.
func noted(t *testing.T, name, condition string) trace.Condition {
	t.Helper()
	for _, s := range scenario.Book() {
		if s.Name != name {
			continue
		}
		r, err := explore.Search(t.Context(), s, explore.Config{Count: 60})
		if err != nil || r.Failure != nil {
			t.Fatal(name, r.Failure, err)
		}
		for _, c := range r.Conditions {
			if c.Name == condition {
				return c
			}
		}
	}
	return trace.Condition{}
}
