package explore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// reuseFaults are those of the worlds of TestReusedMemoryChangesNothing.
const reuseFaults = "conflict(0.05), refused(0.03), lost(0.03), hang(0.02), crash(0.02), relist(0.03), expire(0.02)"

// reuseWorlds are run one after the other: worlds of different components, one that fails, and one with
// everything.
var reuseWorlds = []string{
	twoByTwo,
	twoByTwo + "user carol\n  wait claim other Bound\n", // at rest, but a user waits
	podLife,
}

// runReused runs a scenario with faults that are drawn from a seed, in at most so many steps (0: all).
// It returns the trace with the failure.
func runReused(t *testing.T, s *scenario.Scenario, seed uint64, pool *sim.Pool, stepsMax int) string {
	t.Helper()
	specs, err := sim.ParseFaultSpecs(reuseFaults)
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := sim.NewFaultInjector(sim.NewRandom(seed), seed, specs, 300, cluster.EventKinds...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), scenario.Options{Strategy: strategy, Pool: pool, StepsMax: stepsMax})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s%v\n%v\n", r.Trace.Text(), r.Outcome, r.Failure)
}

// compareReused runs worlds that share memory, and the same worlds alone. It returns how many differ,
// have crashes and fail.
func compareReused(t *testing.T, texts []string, with func(s *scenario.Scenario)) (different, crashed, failed int) {
	t.Helper()
	pool := &sim.Pool{Memory: true}
	defer pool.Close()
	parse := func(text string) *scenario.Scenario {
		s, err := scenario.Parse("reuse", text)
		if err != nil {
			t.Fatal(err)
		}
		with(s)
		return s
	}
	var shared []*scenario.Scenario
	for _, text := range texts {
		shared = append(shared, parse(text))
	}
	for seed := range uint64(8) {
		for i, s := range shared {
			stepsMax := 0
			if seed%4 == 3 {
				stepsMax = 40 // the run is cut
			}
			got := runReused(t, s, seed, pool, stepsMax)
			if got != runReused(t, parse(texts[i]), seed, nil, stepsMax) {
				different++
			}
			if strings.Contains(got, "crash") {
				crashed++
			}
			if !strings.HasSuffix(got, "\n<nil>\n") {
				failed++
			}
		}
	}
	return different, crashed, failed
}

// TestReusedMemoryChangesNothing checks that worlds with the memory of earlier ones have the same trace as
// alone, also after worlds with crashes, worlds that failed and worlds that were cut.
func TestReusedMemoryChangesNothing(t *testing.T) {
	n, crashed, failed := compareReused(t, reuseWorlds, func(*scenario.Scenario) {})
	if n > 0 || crashed == 0 || failed == 0 {
		t.Errorf("%d worlds differ from those that run alone; %d have crashes, %d failed: want none, some and some", n, crashed, failed)
	}
}

// TestLeakBetweenWorldsIsFound checks that the comparison finds what one world leaves for the next: here
// a count of requests, of which each eleventh is refused.
func TestLeakBetweenWorldsIsFound(t *testing.T) {
	n, _, _ := compareReused(t, reuseWorlds[:1], func(s *scenario.Scenario) {
		requests := 0
		s.Interceptors.Client = func(_ string, client *fake.Clientset) *fake.Clientset {
			return client.WithInterceptor(fake.InterceptorFunc(
				func(_ fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
					if requests++; requests%11 == 0 {
						return nil, errors.New("each eleventh request is refused")
					}
					return serve()
				}))
		}
	})
	if n == 0 {
		t.Error("a count that worlds share changes none of them")
	}
}
