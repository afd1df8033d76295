package simtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/simtest"
)

// inEmptyDir changes to a directory with the files of vaults, so that no failure is saved here.
func inEmptyDir(t *testing.T) {
	t.Helper()
	source, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vaults.yaml", "vault.yaml"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err == nil {
			err = os.WriteFile(filepath.Join("testdata", name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// converge runs Converge with a bug of the operator.
func converge(bug vaultBug) (said string, failed bool) {
	return listen(func(t testing.TB) { vaultUser().Converge(t, vaultWorld(bug), simtest.Budget{Schedules: 4}) })
}

// Converge finds what is left of former specs, and shrinks the changes to one or two.
func TestConvergeFindsWhatIsLeft(t *testing.T) {
	testcheck.Stepped(t)
	for bug, want := range map[vaultBug]string{
		keepsFields: "configmaps default/main: data.",
		keepsUsers:  "secrets default/main-ann: got one, want none",
		stops:       "configmaps default/main",
	} {
		t.Run(string(bug), func(t *testing.T) {
			inEmptyDir(t)
			rapidly(t, "seed=1", "checks=30", "shrinktime=5m") // to the end, however slow the machine is
			said, failed := converge(bug)
			if !failed {
				t.Fatalf("it passes:\n%s", said)
			}
			wantWords(t, said, "converge: a state that depends on how the spec came about", want)
			all := kept(t)
			if len(all) != 1 || all[0].Violates != "converge" {
				t.Fatalf("kept %v\n%s", all, said)
			}
			text := all[0].String()
			if n := strings.Count(text, "\n  patch "); n < 1 || n > 2 {
				t.Errorf("%d changes, want 1 or 2:\n%s", n, text)
			}
			again, failed := converge(bug)
			if !failed || strings.Contains(again, "different,") {
				t.Errorf("the saved failure does not fail first: failed: %t\n%s", failed, again)
			}
			rapidly(t, "checks=5")
			if mended, failed := converge(noBug); failed {
				t.Errorf("without the bug the saved failure fails:\n%s", mended)
			}
		})
	}
}

// An operator may say by its status that it cannot do what a spec says. Converge then returns to the
// former spec, if it knows.
func TestConvergeRevertsFailedChanges(t *testing.T) {
	testcheck.Stepped(t)
	inEmptyDir(t)
	rapidly(t, "seed=1", "checks=30")
	t.Setenv("VOLSIM_KEEP", "no")
	user := vaultUser()
	user.Paths = []string{"spec.replicas"}
	converge := func() (said string, failed bool) {
		return listen(func(t testing.TB) { user.Converge(t, vaultWorld(reports), simtest.Budget{Schedules: 1}) })
	}
	if said, failed := converge(); !failed {
		t.Errorf("without Failed it passes:\n%s", said)
	}
	user.Failed = func(object *unstructured.Unstructured) bool {
		_, failed, _ := unstructured.NestedString(object.Object, "status", "failed")
		return failed
	}
	said, failed := converge()
	if failed || strings.Contains(said, "the operator fails with 0 of them") {
		t.Errorf("failed: %t\n%s", failed, said)
	}
	user.Object = "{apiVersion: example.com/v1, kind: Vault, metadata: {name: main}, spec: {replicas: 5}}"
	said, failed = converge()
	if !failed {
		t.Errorf("an object that the operator cannot do passes:\n%s", said)
	}
	wantWords(t, said, "the operator fails with the object itself: its status says so")
}

// Check finds a change that is lost while the operator is at work.
func TestCheckFindsALostChange(t *testing.T) {
	testcheck.Stepped(t)
	inEmptyDir(t)
	rapidly(t, "seed=1", "checks=15", "shrinktime=5m")
	checked := func(bug vaultBug) (said string, failed bool) {
		world := vaultWorld(bug)
		world.OwnRules = append(world.OwnRules, modeFollows)
		user := vaultUser()
		user.Paths = []string{"spec.mode", "spec.users"} // the operator can do all of them
		return listen(func(t testing.TB) {
			simtest.Check(t, world, simtest.Budget{Holds: 1, Schedules: 20}, user.Workload())
		})
	}
	if said, failed := checked(noBug); failed {
		t.Fatalf("without the bug:\n%s", said)
	}
	said, failed := checked(forgets)
	if !failed {
		t.Fatalf("it passes:\n%s", said)
	}
	all := kept(t)
	if len(all) != 1 || all[0].Violates != "follows" {
		t.Fatalf("kept %v\n%s", all, said)
	}
	text := all[0].String()
	if n := strings.Count(text, "\n  patch "); n < 1 || n > 2 || len(all[0].Schedule) == 0 {
		t.Errorf("%d changes, want 1 or 2 and a schedule:\n%s", n, text)
	}
	if said, failed := checked(noBug); failed {
		t.Errorf("without the bug the saved failure fails:\n%s", said)
	}
}
