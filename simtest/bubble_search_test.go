package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/simtest"
)

// deletedLate runs a protector for a claim that a user starts to use and deletes after other
// requests. It reports whether the claim was removed nevertheless: it is if the cache of pods lags for that long.
func deletedLate(t *testing.T, b *simtest.BubbleWorld, controller *protector) bool {
	t.Helper()
	go controller.run(b.Context())
	b.Settle(time.Second)
	user := b.Client("user")
	create(t, user, newClaim("data"))
	create(t, user, newPod("app", "data"))
	for i := range 4 {
		create(t, user, newClaim(fmt.Sprintf("other-%d", i)))
	}
	if err := user.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.Settle(time.Minute)
	_, stays := b.Server().Get("persistentvolumeclaims", "default", "data")
	return !stays
}

// unused runs a protector for a deleted claim that no pod uses, and fails if the claim stays.
func unused(t *testing.T, b *simtest.BubbleWorld, client func(*simtest.BubbleWorld, string) kubernetes.Interface, drops bool) {
	t.Helper()
	controller := &protector{client: client(b, "protector"), drops: drops}
	go controller.run(b.Context())
	user := client(b, "user")
	create(t, user, newClaim("data"))
	if err := user.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.Settle(time.Hour)
	if _, stays := b.Server().Get("persistentvolumeclaims", "default", "data"); stays {
		t.Error("the claim stays")
	}
}

// requestFaults are the ways in which a request fails.
var requestFaults = sim.FaultSpecs{{Name: "refused", Rate: 0.1}, {Name: "lost", Rate: 0.1}, {Name: "conflict", Rate: 0.1}}

// searchFailures are searches that find a failure.
var searchFailures = []failure{
	{"a hold", func(t *testing.T) {
		simtest.Budget{}.SearchBubble(t, func(t *testing.T, b *simtest.BubbleWorld) {
			if deletedLate(t, b, &protector{client: b.Client("protector")}) {
				t.Error("the claim went")
			}
		})
	}, []string{
		`the claim went`, `found in schedule 5 of the search \(1 hold\), shrunk in 1 more run\n`,
		`\n +\* +8 +1s +user +api create persistentvolumeclaims/default/other-0 .* instead of protector: deliver ADDED pods/default/app\n`,
		`\n +schedule: "8 hold: protector: deliver ADDED pods/default/app"\n`, `\n +saved in testdata.*\.schedule, which runs first from now on\n`,
	}},
	{"a fault", func(t *testing.T) {
		simtest.Budget{Faults: requestFaults}.SearchBubble(t, func(t *testing.T, b *simtest.BubbleWorld) {
			unused(t, b, clients[0].make, true)
		})
	}, []string{
		`the claim stays`, `found in schedule \d+ of the search \(the fault refused\)`,
		`\n +schedule: "\d+ refused: protector: api update persistentvolumeclaims/default/data"\n`,
		`\n +\* +\d+ +100ms +protector +api update .*  injected fault: refused\n`,
	}},
	{"a drawn order", func(t *testing.T) {
		simtest.Budget{Schedules: 200}.SearchBubble(t, func(t *testing.T, b *simtest.BubbleWorld) {
			twoUsers(t, b)
			if slices.Equal(did(b)[:2], []string{"two: api create configmaps/default/two-a", "one: api create configmaps/default/one-a"}) {
				t.Error("two is first")
			}
		})
	}, []string{
		`found in schedule \d+ of the search \(seed \d+\)`, `schedule: "1 pick: two: api create configmaps/default/two-a"\n`,
	}},
	{"two holds", func(t *testing.T) {
		simtest.Budget{Holds: 2}.SearchBubble(t, func(t *testing.T, b *simtest.BubbleWorld) {
			threeUsers(t, b)
			if strings.HasPrefix(strings.Join(did(b), ";"), "two: ") {
				t.Error("two is first")
			}
		})
	}, []string{
		`found in schedule \d+ of the search \(2 holds\)`,
		`schedule: "1 hold: one: api get configmaps/default/a; 1 hold: three: api get configmaps/default/a"\n`,
	}},
	{"a failure of the first run alone", func(t *testing.T) {
		var runs atomic.Int32
		simtest.Budget{}.SearchBubble(t, func(t *testing.T, b *simtest.BubbleWorld) {
			twoUsers(t, b)
			if runs.Add(1) == 1 {
				t.Error("broken")
			}
		})
	}, []string{`found in schedule 1 of the search \(the default order\); it did not fail again in 3 replays\n`, `schedule: ""\n`}},
	{"a goroutine that is left under a fault", func(t *testing.T) {
		simtest.Budget{Faults: sim.FaultSpecs{{Name: "lost", Times: 1}}}.SearchBubble(t, func(_ *testing.T, b *simtest.BubbleWorld) {
			go func() {
				if _, err := b.Client("one").CoreV1().ConfigMaps("default").Create(b.Context(), newMap("a"), metav1.CreateOptions{}); err != nil {
					forever()
				}
			}()
			b.Settle(0)
		})
	}, []string{`goroutines of the bubble are left`, `schedule: "1 lost: one: api create configmaps/default/a"\n`}},
	{"restarts", func(t *testing.T) {
		simtest.Budget{Restarts: true}.SearchBubble(t, func(*testing.T, *simtest.BubbleWorld) {})
	}, []string{`a bubble has no processes that could restart`}},
	{"an event", func(t *testing.T) {
		simtest.Budget{Faults: sim.FaultSpecs{{Name: "crash", Times: 1}}}.SearchBubble(t, func(*testing.T, *simtest.BubbleWorld) {})
	}, []string{`fault "crash": want one of .*: a bubble has no events`}},
	{"an impossible rate", func(t *testing.T) {
		simtest.Budget{Faults: sim.FaultSpecs{{Name: "lost", Rate: 2}}}.SearchBubble(t, func(*testing.T, *simtest.BubbleWorld) {})
	}, []string{`want a rate between 0 and 1`}},
}

// threeUsers has three goroutines make one request each.
func threeUsers(t *testing.T, b *simtest.BubbleWorld) {
	t.Helper()
	for _, name := range []string{"one", "three", "two"} {
		maps := b.Client(name).CoreV1().ConfigMaps("default")
		go func() { _, _ = maps.Get(b.Context(), "a", metav1.GetOptions{}) }()
	}
	b.Settle(0)
}

// TestHoldsNeedFewerRunsThanSeeds compares with the search of the failure "a hold", which finds it in schedule 5.
func TestHoldsNeedFewerRunsThanSeeds(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first := 0
	for seed := uint64(0); first == 0 && seed < 400; seed++ {
		simtest.Bubble(t, sim.NewSeeded(seed), func(t *testing.T, b *simtest.BubbleWorld) {
			if deletedLate(t, b, &protector{client: b.Client("protector")}) {
				first = int(seed) + 1
			}
		})
	}
	t.Logf("found by run %d", first)
	if first < 50 {
		t.Errorf("found by run %d (0: none), want one of 50 to 400", first)
	}
}

// TestAFailedWatchIsTriedAgain makes the watches of informers fail in one bubble after the other: the pause after an error
// does not depend on errors outside the bubble, whose clock is ahead.
func TestAFailedWatchIsTriedAgain(t *testing.T) {
	t.Setenv("VOLSIM_KEEP", "no")
	utilruntime.HandleError(errors.New("outside"))
	runs := 0
	budget := simtest.Budget{Faults: sim.FaultSpecs{{Name: "refused", Target: "watch", Times: 1}}, Schedules: 20}
	budget.SearchBubble(t, func(t *testing.T, b *simtest.BubbleWorld) {
		runs++
		go (&protector{client: b.Client("protector")}).run(b.Context())
		b.Settle(2 * time.Hour)
		last := map[string]time.Duration{}
		for _, r := range b.Trace().Records() {
			if r.Verb == "watch" {
				last[r.Object] = r.At
			}
		}
		for _, resource := range []string{"pods", "persistentvolumeclaims"} {
			if last[resource] < time.Hour {
				t.Errorf("the last watch of %s began after %s\n%s", resource, last[resource], b.Trace().Text())
			}
		}
	})
	if runs != 20 {
		t.Errorf("%d runs", runs)
	}
}

// TestSavedSchedulesRunFirst fails twice in the same directory, and passes with the controller fixed.
func TestSavedSchedulesRunFirst(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failed(ctx, t, binary, "a hold", dir)
	saved, err := filepath.Glob(filepath.Join(dir, "testdata", "explore", "TestABubbleSaysWhyItFails", "*.schedule"))
	if err != nil || len(saved) != 1 {
		t.Fatal(saved, err)
	}
	out := string(failed(ctx, t, binary, "a hold", dir))
	if !strings.Contains(out, ".schedule fails again\n") || strings.Contains(out, "of the search") {
		t.Errorf("the second time:\n%s", out)
	}
	if err := os.WriteFile(saved[0], []byte("# none\n3 hold: unknown: api get nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out = string(failed(ctx, t, binary, "a hold", dir))
	if !strings.Contains(out, ".schedule: the schedule no longer fits (3 hold: unknown: api get nothing: not possible)\n") ||
		!strings.Contains(out, "found in schedule 5 of the search") {
		t.Errorf("with a schedule that does not fit:\n%s", out)
	}
}

// TestSearchesOfAMendedController has controllers pass under holds, drawn orders and faults, by both kinds of clients.
func TestSearchesOfAMendedController(t *testing.T) {
	t.Setenv("VOLSIM_KEEP", "no")
	for _, way := range clients {
		t.Run(way.name, func(t *testing.T) {
			faults := map[string]bool{} // that happened
			simtest.Budget{Faults: requestFaults, Schedules: 120}.SearchBubble(t, func(t *testing.T, b *simtest.BubbleWorld) {
				unused(t, b, way.make, false)
				for _, r := range b.Trace().Records() {
					switch {
					case r.Err == nil:
					case r.Task == "user":
						t.Errorf("a request of the test fails: %s", r)
					case r.Lost:
						faults["lost"] = true
					case apierrors.IsServiceUnavailable(r.Err):
						faults["refused"] = true
					case apierrors.IsConflict(r.Err):
						faults["conflict"] = true
					}
				}
			})
			if len(faults) != len(requestFaults) {
				t.Errorf("only %v happened", faults)
			}
			runs := 0
			simtest.Budget{Schedules: 60}.SearchBubble(t, func(t *testing.T, b *simtest.BubbleWorld) {
				runs++
				if deletedLate(t, b, &protector{client: way.make(b, "protector"), live: true}) {
					t.Error("the claim went")
				}
			})
			if runs != 60 {
				t.Errorf("%d runs, want 60", runs)
			}
		})
	}
}

// TestFaultsOfDrivers makes calls of a driver fail, in each run another one.
func TestFaultsOfDrivers(t *testing.T) {
	t.Setenv("VOLSIM_KEEP", "no")
	got := map[string]int{}
	faults := sim.FaultSpecs{{Name: "hang", Target: "Create", Times: 1}, {Name: "driver Aborted", Target: "node", Times: 1}}
	simtest.Budget{Faults: faults, Schedules: 5}.SearchBubble(t, func(_ *testing.T, b *simtest.BubbleWorld) {
		effects := 0
		for _, call := range []struct{ name, verb string }{{"controller", "CreateVolume"}, {"controller", "DeleteVolume"}, {"node", "NodeStage"}} {
			caller := b.Caller(call.name)
			go func() {
				out := caller.Call(trace.Action{Kind: trace.KindDriver, Verb: call.verb}, func() trace.Outcome {
					effects++
					return trace.Outcome{}
				})
				if passed := caller.Now().Sub(time.Unix(946684800, 0)); out.Err != nil || passed != 0 {
					got[fmt.Sprintf("%s after %s: %v", call.verb, passed, out.Err)]++
				}
			}()
		}
		b.Settle(time.Hour)
		got[fmt.Sprintf("%d effects", effects)]++
	})
	want := map[string]int{ // the default order, two holds, two faults
		"CreateVolume after 2m0s: rpc error: code = DeadlineExceeded desc = the driver did not answer": 1,
		"NodeStage after 0s: rpc error: code = Aborted desc = NodeStage: injected fault":               1,
		"2 effects": 1, "3 effects": 4,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
