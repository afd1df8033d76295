package explore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
)

// Without a selection of components, the world of those that act in the default order is searched
// first. There some mutants are found in fewer schedules: this one takes 992 in the whole world.
func TestSmallerWorldIsSearchedFirst(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(claimMutants, func(m mutant) bool { return m.name == "a volume is bound without a resourceVersion precondition" })
	s := claimMutants[i].scene(t, true, "")
	s.Components = nil
	last := 0
	cfg := explore.Config{
		Strategy: explore.Holds, Depth: 2, Count: 200, Rule: "I5",
		Progress: func(r explore.Report) {
			if r.Schedules != last+1 {
				t.Errorf("%d schedules after %d", r.Schedules, last)
			}
			last = r.Schedules
		},
	}
	report, err := explore.Search(t.Context(), s, cfg)
	testcheck.NoError(t, err)
	f := report.Failure
	if f == nil || f.Schedules > 20 || f.Schedules != report.Schedules || report.Schedules != last {
		t.Fatalf("%v in %+v, and %d schedules in the progress", f, report, last)
	}
	if !slices.Equal(f.Scenario.Components, []string{"pvcontroller"}) {
		t.Errorf("found with components %q", f.Scenario.Components)
	}
	if want := "of the search, in the world of the components pvcontroller;"; !strings.Contains(f.Found(), want) {
		t.Errorf("%q is not in %q", want, f.Found())
	}
	read, err := scenario.Parse("again", f.Scenario.String())
	testcheck.NoError(t, err)
	r, err := explore.Replay(t.Context(), read.WithGo(f.Scenario))
	testcheck.NoError(t, err)
	if r.Mismatch != "" || scenario.RuleID(r.Failure) != "I5" {
		t.Errorf("replayed: %v, %s", r.Failure, r.Mismatch)
	}
}

// A statement of completeness is about the whole world, which is searched after the smaller one.
func TestWholeWorldIsSearchedAfterwards(t *testing.T) {
	t.Parallel()
	s, err := scenario.Parse("whole", "user alice\n  create volume disk 1Gi\n  create claim data 1Gi class=\n")
	testcheck.NoError(t, err)
	whole, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, States: true}) // counted in one world
	testcheck.NoError(t, err)
	both, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds})
	testcheck.NoError(t, err)
	if both.Complete != "no failure with at most 1 hold" || both.Complete != whole.Complete || both.Schedules <= whole.Schedules {
		t.Errorf("%+v, the whole world alone: %+v", both, whole)
	}
	bounded, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, Count: 20})
	testcheck.NoError(t, err)
	if bounded.Complete != "" || bounded.Schedules != 20 {
		t.Errorf("within 20 schedules: %+v", bounded)
	}
}

// What is wrong at rest in a smaller world may be due to what it lacks, and is no failure: bob deletes
// the claim if it is not bound, which does not happen in the default order, and then pvcprotection
// must act.
func TestSmallerWorldHasNoFailuresAtRest(t *testing.T) {
	testcheck.Stepped(t)
	t.Parallel()
	s, err := scenario.Parse("at-rest", "user alice\n  create volume disk 1Gi\n  create claim data 1Gi class=\nuser bob\n")
	testcheck.NoError(t, err)
	deletions := 0
	s.Users[1].Script = func(ctx context.Context, c *cluster.Cluster) error {
		claims := c.Client().CoreV1().PersistentVolumeClaims("default")
		for {
			claim, err := claims.Get(ctx, "data", metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				continue
			case err != nil || claim.Status.Phase == corev1.ClaimBound:
				return err
			case claim.Spec.VolumeName != "":
				deletions++
				return claims.Delete(ctx, "data", metav1.DeleteOptions{})
			}
		}
	}
	s.OutcomesDiffer = true
	s.OwnRules = []invariant.Rule{{ID: "gone", Forbids: "a claim that is being deleted", Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{AtRest: func() error {
			for _, claim := range w.API.List("persistentvolumeclaims") {
				if claim.GetDeletionTimestamp() != nil {
					return errors.New("it is not removed")
				}
			}
			return nil
		}}
	}}}
	report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, Depth: 2, Count: 1000, Rule: "gone"})
	testcheck.NoError(t, err)
	if report.Failure != nil {
		t.Errorf("%v, %s", report.Failure, report.Failure.Found())
	}
	if deletions == 0 {
		t.Error("no schedule deletes the claim")
	}
}

// noter is an operator that notes the UID of each claim in a ConfigMap. It remembers by name that it did, so it
// keeps the note of a claim if it learns of its deletion only after its name is used again.
func noter() cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "noter", For: "persistentvolumeclaims",
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			noted := map[string]bool{}
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				notes := p.Client.CoreV1().ConfigMaps(key.Namespace)
				claim, err := p.Client.CoreV1().PersistentVolumeClaims(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					delete(noted, key.Name)
					if err = notes.Delete(ctx, key.Name, metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
						err = nil
					}
					return 0, err
				}
				if err != nil || noted[key.Name] {
					return 0, err
				}
				note := &corev1.ConfigMap{Data: map[string]string{"uid": string(claim.UID)}}
				note.Name = key.Name
				_, err = notes.Create(ctx, note, metav1.CreateOptions{})
				noted[key.Name] = err == nil
				return 0, err
			}, nil
		},
	})
}

// A rule that is violated at rest in the smaller world is also checked in the whole one, in which the failure has its
// schedule.
func TestSmallerWorldShowsWhatIsWrongAtRest(t *testing.T) {
	testcheck.Stepped(t)
	t.Parallel()
	s, err := scenario.Parse("noted", `user alice
  create volume disk 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  delete claim data
  wait claim data gone
  create claim data 1Gi class=
`)
	testcheck.NoError(t, err)
	s.OutcomesDiffer, s.Extra = true, []cluster.Component{noter()}
	s.OwnRules = []invariant.Rule{{ID: "noted", Forbids: "a note of a claim that is gone", Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{AtRest: func() error {
			for _, note := range w.API.List("configmaps") {
				uid := note.(*corev1.ConfigMap).Data["uid"]
				for _, claim := range w.API.List("persistentvolumeclaims") {
					if claim.GetName() == note.GetName() && string(claim.GetUID()) != uid {
						return errors.New("configmap default/" + note.GetName())
					}
				}
			}
			return nil
		}}
	}}}
	one, err := explore.Search(t.Context(), s, explore.Config{Rule: "noted"})
	testcheck.NoError(t, err)
	f := one.Failure
	if f == nil || f.Schedules > 20 {
		t.Fatalf("%v in %+v", f, one)
	}
	if f.Scenario.Components != nil || f.World != "" || len(f.Scenario.Schedule) > 3 {
		t.Errorf("%s\n%s", f.Found(), f.Scenario)
	}
	read, err := scenario.Parse("again", f.Scenario.String())
	testcheck.NoError(t, err)
	r, err := explore.Replay(t.Context(), read.WithGo(f.Scenario))
	testcheck.NoError(t, err)
	if r.Mismatch != "" || scenario.RuleID(r.Failure) != "noted" {
		t.Errorf("replayed: %v, %s", r.Failure, r.Mismatch)
	}
}
