package simtest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/simtest"
)

// settings are the parameters of an operator.
type settings struct {
	For    string `json:"for"`    // the resource whose objects it reconciles
	Copies int    `json:"copies"` // the number of Secrets that it wants
}

// copier is an operator that creates Secrets until its cache has enough.
func copier(p settings) cluster.Component {
	watches := []cluster.Watch{{Resource: "secrets"}}
	if p.For == "storageclasses" { // a second key
		watches = append(watches, cluster.Watch{Resource: "csidrivers", Keys: driverKey})
	}
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "copier", For: p.For, Watches: watches,
		Build: func(c cluster.ComponentContext) (cluster.Reconcile, error) {
			return func(ctx context.Context, _ types.NamespacedName) (time.Duration, error) {
				secrets := c.Client.CoreV1().Secrets("default")
				all, err := secrets.List(ctx, metav1.ListOptions{})
				for i := len(all.Items); err == nil && i < p.Copies; i++ {
					_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
				}
				return 0, err
			}, nil
		},
	})
}

// driverKey returns the key of a driver.
func driverKey(obj fake.Object) []types.NamespacedName {
	return []types.NamespacedName{{Name: obj.GetName()}}
}

// settingsFor draws the settings of an operator for a resource.
func settingsFor(resource string) *rapid.Generator[settings] {
	return rapid.Custom(func(rt *rapid.T) settings {
		return settings{For: resource, Copies: rapid.IntRange(0, 4).Draw(rt, "copies")}
	})
}

// fewSecrets is a world in which more than three Secrets are forbidden.
var fewSecrets = scenario.Scenario{
	Components: []string{}, Rules: []string{}, OwnRules: []invariant.Rule{{
		ID: "few", Forbids: "more than three secrets", Begin: func(w invariant.World) invariant.Checks {
			return invariant.Checks{Commit: func(fake.Commit) error {
				if n := len(w.API.List("secrets")); n > 3 {
					return fmt.Errorf("there are %d", n)
				}
				return nil
			}}
		},
	}},
}

// changes changes a ConfigMap as often as its argument says.
func changes(ctx context.Context, c *cluster.Cluster, times int) error {
	maps := c.Client().CoreV1().ConfigMaps("default")
	m, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
	for i := 1; err == nil && i < times; i++ {
		m.Data = map[string]string{"n": fmt.Sprint(i)}
		m, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	}
	return err
}

// checkCopier checks the operator with drawn parameters and a script with drawn arguments.
func checkCopier(more ...simtest.Workload) func(t testing.TB) {
	return func(t testing.TB) {
		simtest.Check(t, fewSecrets, simtest.Budget{Holds: 1, Schedules: 60}, append([]simtest.Workload{
			simtest.Component("copier", settingsFor("configmaps"), copier),
			simtest.Script("alice", rapid.IntRange(1, 4), changes),
		}, more...)...)
	}
}

const smallestCopies = `components: none
ends: differ
drawn: copier {"for":"configmaps","copies":2}
drawn: alice 2
user alice
schedule
  6 hold: copier/cache secrets
violates: few
`

// Check draws the parameters of an operator and of a script, shrinks them, prints them, and replays
// a saved failure with them.
func TestCheckDrawsComponents(t *testing.T) {
	testcheck.Stepped(t)
	t.Chdir(t.TempDir())
	rapidly(t, "seed=1", "checks=30")
	said, failed := listen(checkCopier())
	if !failed {
		t.Fatalf("it passes:\n%s", said)
	}
	wantWords(t, said, smallestCopies, "which has: component copier, rule few, script of alice\n",
		"var workloads []simtest.Workload // those of the same call\n")
	if strings.Contains(said, "cannot be replayed") {
		t.Error(said)
	}
	all := kept(t)
	if len(all) != 1 || all[0].String() != smallestCopies {
		t.Fatalf("kept %v, want\n%s", all, smallestCopies)
	}
	again, failed := listen(checkCopier())
	if !failed || strings.Contains(again, "workloads") && strings.Contains(again, "different,") {
		t.Errorf("the saved failure does not fail first: failed: %t\n%s", failed, again)
	}
	wantWords(t, again, "few: more than three secrets: there are 4")
	replayed, failed := listen(func(t testing.TB) {
		simtest.Replay(t, all[0].WithGo(&fewSecrets), "", simtest.Component("copier", settingsFor("configmaps"), copier),
			simtest.Script("alice", rapid.IntRange(1, 4), changes))
	})
	if !failed {
		t.Errorf("Replay passes:\n%s", replayed)
	}
	wantWords(t, replayed, "few: more than three secrets: there are 4")
}

// A saved failure whose values no workload draws ends the test, and so does one that lacks a value.
func TestSavedValuesMustBeDrawn(t *testing.T) {
	for name, c := range map[string]struct{ drawn, want string }{
		"unknown": {"drawn: copier {\"for\":\"configmaps\",\"copies\":2}\ndrawn: alice 1\ndrawn: other 7\n", "no workload draws other; remove the file"},
		"missing": {"drawn: alice 1\n", "no recorded value of copier; remove the file"},
		"invalid": {"drawn: alice 1\ndrawn: copier []\n", "drawn copier []: json: cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			testcheck.NoError(t, os.MkdirAll("testdata/explore/TestListened", 0o755))
			testcheck.NoError(t, os.WriteFile(filepath.Join("testdata/explore/TestListened", "old.txt"), []byte(c.drawn+"user alice\n"), 0o644))
			said, failed := listen(checkCopier())
			if !failed {
				t.Errorf("it passes:\n%s", said)
			}
			wantWords(t, said, "old.txt: the saved failure cannot be replayed: ", c.want)
		})
	}
}

// A parameter that does not come from Draw is reported, as its saved failure cannot be replayed.
func TestParametersMustComeFromDraw(t *testing.T) {
	t.Chdir(t.TempDir())
	rapidly(t, "seed=1", "checks=30")
	said, failed := listen(func(t testing.TB) {
		simtest.Check(t, fewSecrets, simtest.Budget{Schedules: 60}, func(rt *rapid.T, d *simtest.Draft) {
			copies := rapid.IntRange(0, 4).Filter(func(n int) bool { return n != 0 }).Draw(rt, "copies")
			d.Component(copier(settings{"configmaps", copies}))
			d.Script("alice", func(ctx context.Context, c *cluster.Cluster) error { return changes(ctx, c, 3) })
		})
	})
	if !failed {
		t.Fatalf("it passes:\n%s", said)
	}
	wantWords(t, said, "the saved failure cannot be replayed: few is not violated: draw the parameters of components and scripts with simtest.Draw")
}

// A world without users counts if it has a drawn component: its start is searched.
func TestCheckSearchesTheStartOfAComponent(t *testing.T) {
	t.Chdir(t.TempDir())
	rapidly(t, "seed=1", "checks=20")
	said, failed := listen(func(t testing.TB) {
		simtest.Check(t, fewSecrets, simtest.Budget{Schedules: 60}, simtest.Component("copier", settingsFor("storageclasses"), copier))
	})
	if !failed {
		t.Fatalf("it passes:\n%s", said)
	}
	all := kept(t)
	if len(all) != 1 || len(all[0].Users) > 0 || all[0].Violates != "few" {
		t.Errorf("kept %v\n%s", all, said)
	}
	if strings.Contains(said, "cannot be replayed") {
		t.Error(said)
	}
}

// Draw returns what the JSON of a value says, and refuses labels that cannot be recorded.
func TestDraw(t *testing.T) {
	type value struct {
		Kept    time.Duration
		dropped int
	}
	for label, want := range map[string]string{"a": "", "": `label "": want one word`, "a b": `label "a b"`, "twice": `"twice" is drawn twice`} {
		said, failed := listen(func(t testing.TB) {
			simtest.Check(t, fewSecrets, simtest.Budget{}, func(rt *rapid.T, d *simtest.Draft) {
				v := simtest.Draw(rt, d, rapid.Just(value{Kept: time.Second, dropped: 2}), label)
				if v != (value{Kept: time.Second}) {
					rt.Errorf("drawn %v", v)
				}
				if label == "twice" {
					simtest.Draw(rt, d, rapid.Bool(), label)
				}
			})
		})
		if failed != (want != "") {
			t.Errorf("%q: failed: %t\n%s", label, failed, said)
		}
		wantWords(t, said, want)
	}
}
