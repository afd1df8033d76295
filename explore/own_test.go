package explore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// oneSecret forbids two Secrets, in three ways.
func oneSecret(id string, how func(secrets func() int) invariant.Checks) invariant.Rule {
	return invariant.Rule{
		ID: id, Forbids: "two secrets of one operator",
		Begin: func(w invariant.World) invariant.Checks {
			return how(func() int { return len(w.API.List("secrets")) })
		},
	}
}

// creation is where creator creates a Secret.
const creation = "explore/own_test.go:49"

// creator is an operator that creates a Secret, unless its cache has one.
func creator(reads fake.Reads) cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "operator", For: "configmaps", Watches: []cluster.Watch{{Resource: "secrets"}}, Reads: reads,
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			return func(ctx context.Context, _ types.NamespacedName) (time.Duration, error) {
				secrets := p.Client.CoreV1().Secrets("default")
				all, err := secrets.List(ctx, metav1.ListOptions{})
				if err != nil || len(all.Items) > 0 {
					return 0, err
				}
				_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}},
					metav1.CreateOptions{})
				return 0, err
			}, nil
		},
	})
}

// changeTwice is a user in Go.
func changeTwice(ctx context.Context, c *cluster.Cluster) error {
	maps := c.Client().CoreV1().ConfigMaps("default")
	m, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	m.Data = map[string]string{"a": "b"}
	_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	return err
}

func changed(reads fake.Reads, rules ...invariant.Rule) *scenario.Scenario {
	return &scenario.Scenario{
		Name: "own", Components: []string{}, Extra: []cluster.Component{creator(reads)}, OwnRules: rules,
		Users: []scenario.User{{Name: "alice", Script: changeTwice}}, Rules: []string{},
	}
}

// A rule of one's own is violated by an operator that acts on an old read of its cache. The search
// sees the user in Go, and calls Watch, in the runs that confirm and shrink the failure.
func TestOwnRules(t *testing.T) {
	tooMany := func(n int) error {
		if n > 1 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	}
	for _, rule := range []invariant.Rule{
		oneSecret("one-commit", func(secrets func() int) invariant.Checks {
			return invariant.Checks{Commit: func(e fake.Commit) error { return tooMany(secrets()) }}
		}),
		oneSecret("one-record", func(func() int) invariant.Checks {
			creations := 0
			return invariant.Checks{Record: func(r trace.Record) error {
				if r.Verb == "create" && trace.Process(r.Task) == "operator" && r.Before == nil && r.After != nil {
					creations++
				}
				return tooMany(creations)
			}}
		}),
		oneSecret("one-rest", func(secrets func() int) invariant.Checks {
			return invariant.Checks{AtRest: func() error { return tooMany(secrets()) }}
		}),
	} {
		t.Run(rule.ID, func(t *testing.T) {
			worlds := 0
			cfg := explore.Config{
				Strategy: explore.Holds, Rule: rule.ID,
				Watch: func(c *cluster.Cluster) {
					worlds++
					c.Server().OnCommit(func(fake.Commit) {})
				},
			}
			report, err := explore.Search(t.Context(), changed(fake.ReadCache, rule), cfg)
			testcheck.NoError(t, err)
			f := report.Failure
			if f == nil {
				t.Fatal("no failure")
			}
			var violation *invariant.Violation
			if !errors.As(f.Result.Failure, &violation) || violation.Rule.ID != rule.ID || f.Scenario.Violates != rule.ID {
				t.Errorf("failure %v", f)
			}
			if rest := rule.ID == "one-rest"; violation.AtRest != rest {
				t.Errorf("found at rest: %t, want %t", violation.AtRest, rest)
			} else if r := f.Result.Trace.Records()[violation.Step-1]; !rest && (r.Verb != "create" || r.Resource() != "secrets") {
				t.Errorf("violated by %v", r)
			}
			if source := f.Result.Source; (source == "") != (rule.ID == "one-rest") || source != "" && source != creation {
				t.Errorf("source %q, want %q", source, creation)
			}
			if worlds <= report.Schedules {
				t.Errorf("Watch was called for %d worlds, and there were %d schedules", worlds, report.Schedules)
			}
			story := scenario.Story(f.Scenario, f.Result)
			if !strings.Contains(story, "violation: "+rule.ID+": two secrets of one operator: there are 2") || strings.Contains(story, "replay: volsim") {
				t.Error(story)
			}
			again, err := f.Scenario.Run(t.Context(), scenario.Options{})
			testcheck.NoError(t, err)
			if again.Failure == nil || again.Mismatch != "" {
				t.Errorf("replayed: %v, %s", again.Failure, again.Mismatch)
			}
			report, err = explore.Search(t.Context(), changed(fake.ReadYourWrites, rule), cfg)
			testcheck.NoError(t, err)
			if report.Failure != nil || report.Complete == "" {
				t.Errorf("with reads of its own writes: %v, complete: %q", report.Failure, report.Complete)
			}
		})
	}
}

// The source of a violation is the act of a user with its line in the text, and that of the error of a
// user in Go the last request.
func TestSourceOfUsers(t *testing.T) {
	s, err := scenario.Parse("deleted", `# Two lines
# of comment.
components: none
user alice
  create claim data 1Gi class=
  delete claim data
  create claim more 1Gi class=
user bob
`)
	testcheck.NoError(t, err)
	s.OwnRules = []invariant.Rule{{
		ID: "keep", Forbids: "a claim is deleted", Begin: func(invariant.World) invariant.Checks {
			return invariant.Checks{Commit: func(e fake.Commit) error {
				if e.Resource == "persistentvolumeclaims" && e.Before != nil {
					return errors.New("it is")
				}
				return nil
			}}
		},
	}}
	report, err := explore.Search(t.Context(), s, explore.Config{})
	testcheck.NoError(t, err)
	const act = "line 6 of the scenario: delete claim data"
	f := report.Failure
	if f == nil || f.Result.Source != act {
		t.Fatalf("%v, source %q, want %q", f, f.Result.Source, act)
	}
	path, err := explore.Save(t.TempDir(), f)
	testcheck.NoError(t, err)
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(text), "\n# source: "+act+"\n") {
		t.Errorf("saved, %v:\n%s", err, text)
	}
	s.Rules, s.OwnRules = []string{}, nil
	s.Users[1].Script = func(ctx context.Context, c *cluster.Cluster) error {
		_, err := c.Client().CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		return err
	}
	report, err = explore.Search(t.Context(), s, explore.Config{})
	testcheck.NoError(t, err)
	if f := report.Failure; f == nil || f.Scenario.Violates != "user" || f.Result.Source != sourceOfGet {
		t.Errorf("%v, source %q, want %q", f, f.Result.Source, sourceOfGet)
	}
}

const sourceOfGet = "explore/own_test.go:188"

func TestInvalidOwnRules(t *testing.T) {
	begin := func(invariant.World) invariant.Checks { return invariant.Checks{} }
	for _, c := range []struct {
		rule invariant.Rule
		want string
	}{
		{invariant.Rule{ID: "I1", Begin: begin}, `rule "I1": there already is a rule with this ID`},
		{invariant.Rule{ID: "a b", Begin: begin}, `rule "a b": want an ID without blanks, commas and colons, and Begin`},
		{invariant.Rule{ID: "mine"}, `rule "mine": want an ID without blanks, commas and colons, and Begin`},
	} {
		_, err := explore.Search(t.Context(), changed(fake.ReadCache, c.rule), explore.Config{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want %s", c.rule, err, c.want)
		}
	}
}

// A search in which nothing happens after the set-up is an error, as it checks nothing.
func TestSearchOfNothing(t *testing.T) {
	_, err := explore.Search(t.Context(), &scenario.Scenario{Name: "idle", Components: []string{}}, explore.Config{})
	if err == nil || err.Error() != "scenario idle: nothing happens after the set-up: let a user act, by Acts or Script" {
		t.Errorf("got error %v", err)
	}
}
