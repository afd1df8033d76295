package simtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/simtest"
)

// reserved is a world in which the reserver takes part; broken says how.
func reserved(broken cluster.Interceptors) scenario.Scenario {
	return scenario.Scenario{
		Components: []string{"pvcontroller"}, Rules: []string{"I1", "I2"}, Extra: []cluster.Component{reserver}, Interceptors: broken,
	}
}

// checkReserver checks the reserver with whatever claims and volumes there are.
func checkReserver(broken cluster.Interceptors) func(t testing.TB) {
	return func(t testing.TB) {
		simtest.Check(t, reserved(broken), simtest.Budget{Holds: 2, Schedules: 80}, simtest.Claims(1, 4), simtest.Volumes(1, 4))
	}
}

// kept are the scenarios that were kept in the test's folder.
func kept(t *testing.T) []*scenario.Scenario {
	t.Helper()
	files, err := filepath.Glob("testdata/explore/TestListened/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []*scenario.Scenario
	for _, f := range files {
		all = append(all, simtest.Read(t, f))
	}
	return all
}

const smallest = `components: pvcontroller
rules: I1, I2
ends: differ
user admin-v1
  create volume v1 1Gi
user owner-c1
  create claim c1 1Gi class=
user owner-c2
  create claim c2 1Gi class=
`

// late is what goes wrong in the smallest workload: one delivery comes late, at a step that depends on the world.
const late = " hold: reserver/cache persistentvolumes"

// Check finds the defect from any seed of rapid, and shrinks the workload and the schedule to the
// minimum: two claims, one volume, one late delivery.
func TestCheckFindsTheSmallestFailure(t *testing.T) {
	testcheck.Stepped(t)
	for _, seed := range []string{"1", "2", "3"} {
		t.Chdir(t.TempDir())
		rapidly(t, "seed="+seed)
		said, failed := listen(checkReserver(careless))
		if !failed {
			t.Fatalf("seed %s: it passes:\n%s", seed, said)
		}
		if _, err := os.Stat("testdata/rapid"); !os.IsNotExist(err) || strings.Contains(said, "failfile") {
			t.Errorf("seed %s: rapid keeps the failure, too: %v\n%s", seed, err, said)
		}
		wantWords(t, said, "-rapid.seed=")
		all := kept(t)
		if len(all) != 1 {
			t.Fatalf("seed %s: %d failures are kept, want 1", seed, len(all))
		}
		schedule := all[0].Schedule.String()
		if len(all[0].Schedule) != 1 || !strings.HasSuffix(schedule, late) || all[0].Violates != "I2" {
			t.Errorf("seed %s: kept under %q as %s, want one%s as I2", seed, schedule, all[0].Violates, late)
		}
		if got := all[0].WithSchedule(nil, "").String(); got != smallest {
			t.Errorf("seed %s: kept\n%swant\n%s", seed, got, smallest)
		}
		for _, line := range strings.Split(said, "\n") {
			if strings.Contains(line, "workloads,") {
				t.Logf("seed %s: %s", seed, line)
			}
		}
	}
}

// The output of a failing test is reproducible.
func TestCheckFailsTheSameWay(t *testing.T) {
	testcheck.Stepped(t)
	rapidly(t, "seed=1", "nofailfile=true")
	t.Chdir(t.TempDir())
	first, _ := listen(checkReserver(careless))
	t.Chdir(t.TempDir())
	again, failed := listen(checkReserver(careless))
	if !failed || first != again {
		t.Errorf("failed: %t, first\n%s\nthen\n%s", failed, first, again)
	}
	wantWords(t, first, smallest, late+`"`,
		"found in schedule ", " of the search", "source: simtest/reserver_test.go:64\n",
		"saved in testdata/explore/TestListened/", "picture: testdata/explore/TestListened/drawn-I2-",
		"replay: go test -run '^TestListened$' runs testdata/explore/TestListened/drawn-I2-")
}

// Saved failures run before anything is drawn: they fail while the defect exists, and pass afterwards.
func TestKeptFailuresRunFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	checks := "3"
	if testing.Short() {
		checks = "15" // of which rapid makes a fifth
	}
	rapidly(t, "seed=1", "checks="+checks, "nofailfile=true")
	listen(checkReserver(careless))
	if len(kept(t)) != 1 {
		t.Fatal("nothing is kept")
	}
	said, failed := listen(checkReserver(careless))
	if !failed || strings.Contains(said, "rapid") {
		t.Errorf("with the defect: failed: %t\n%s", failed, said)
	}
	wantWords(t, said, "I2: a volume rebound", "the volume cache of reserver is held", "violation: I2")
	said, failed = listen(checkReserver(cluster.Interceptors{}))
	if failed {
		t.Errorf("without the defect it fails:\n%s", said)
	}
	wantWords(t, said, ".txt: passes", "passed 3 tests")
}

// A saved schedule that no longer fits is reported, and its scenario is searched again.
func TestKeptSchedulesMayNotFit(t *testing.T) {
	t.Chdir(t.TempDir())
	rapidly(t, "seed=1", "checks=3", "nofailfile=true")
	outgrown := smallest + "schedule\n  16 hold: reserver/cache nodes\nviolates: I2\n"
	if err := os.MkdirAll("testdata/explore/TestListened", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/explore/TestListened/old.txt", []byte(outgrown), 0o644); err != nil {
		t.Fatal(err)
	}
	said, failed := listen(checkReserver(cluster.Interceptors{}))
	if failed {
		t.Errorf("without a defect it fails:\n%s", said)
	}
	wantWords(t, said, "old.txt: the schedule no longer fits (16 hold: reserver/cache nodes: the next task is ")
	said, failed = listen(checkReserver(careless))
	if !failed {
		t.Errorf("with the defect it passes:\n%s", said)
	}
	wantWords(t, said, "old.txt: I2", late+`"`)
}

// expiring is a test whose deadline is near.
type expiring struct{ testing.TB }

func (expiring) Deadline() (time.Time, bool) { return sim.Epoch, true }

// Nothing is searched when the deadline of the test is near, and the log says so.
func TestCheckStopsBeforeTheDeadline(t *testing.T) {
	rapidly(t, "seed=1", "checks=3", "nofailfile=true")
	said, failed := listen(func(t testing.TB) { checkReserver(careless)(expiring{t}) })
	if failed {
		t.Errorf("it fails:\n%s", said)
	}
	wantWords(t, said, "stopped before the deadline of the test", " 0 schedules")
}

func TestFailuresAreNotKeptAgainstTheWish(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("VOLSIM_KEEP", "no")
	rapidly(t, "seed=1", "nofailfile=true")
	if said, failed := listen(checkReserver(careless)); !failed {
		t.Errorf("it passes:\n%s", said)
	}
	if _, err := os.Stat("testdata"); !os.IsNotExist(err) {
		t.Errorf("testdata: %v, want none", err)
	}
}

// Explore fails in rapid's hands like any property: what rapid has kept fails again, in the same words.
func TestExploreFailsAgainFromRapidsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	explore := func(t testing.TB) {
		rapid.Check(t, func(rt *rapid.T) {
			simtest.Explore(rt, reserved(careless), simtest.Budget{Schedules: 80}, simtest.Claims(2, 2), simtest.Volumes(1, 1))
		})
	}
	failure := func(said string) string {
		_, after, _ := strings.Cut(said, "tests: ")
		words, _, _ := strings.Cut(after, "\nTo reproduce")
		return words
	}
	rapidly(t, "seed=1", "shrinktime=0s")
	first, failed := listen(explore)
	if !failed {
		t.Fatalf("it passes:\n%s", first)
	}
	rapidly(t, "seed=2")
	again, _ := listen(explore)
	wantWords(t, again, "failed after 0 tests: I2", late)
	if failure(first) != failure(again) {
		t.Errorf("first\n%s\nthen\n%s", failure(first), failure(again))
	}
}

// A correct program passes under every workload and fault.
func TestCheckPassesWhatIsRight(t *testing.T) {
	testcheck.Stepped(t)
	faults, err := sim.ParseFaultSpecs("conflict(0.1), refused(0.05), crash(pvcontroller, 1)")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		world     scenario.Scenario
		workloads []simtest.Workload
	}{
		"binding with a part of the user's": {
			scenario.Scenario{Components: []string{"pvcontroller", "pvcprotection", "pvprotection"}, Extra: []cluster.Component{reserver}},
			[]simtest.Workload{simtest.Claims(1, 4), simtest.Volumes(0, 4), simtest.Pods(0, 2)},
		},
		"the whole control plane": {
			scenario.Scenario{},
			[]simtest.Workload{simtest.Classes(0, 1), simtest.Claims(1, 3), simtest.Volumes(0, 2), simtest.Pods(0, 2)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapidly(t, "seed=5", "checks=12", "nofailfile=true")
			simtest.Check(t, tt.world, simtest.Budget{Restarts: true, Faults: faults, Schedules: 25}, tt.workloads...)
		})
	}
}
