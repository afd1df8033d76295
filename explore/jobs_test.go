package explore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// lateRead fails if alice is late by several steps: bob has deleted the claim that she waits for.
const lateRead = `
components: pvcontroller, pvcprotection
ends: differ
user alice
  create volume v1 1Gi
  create volume v2 1Gi
  create claim c1 1Gi class=
  create claim c2 1Gi class=
  wait claim c1 Bound
  wait claim c2 Bound
user bob
  wait claim c2 Bound
  create volume v3 1Gi
  delete claim c2
`

func parse(tb testing.TB, text string) *scenario.Scenario {
	tb.Helper()
	s, err := scenario.Parse("jobs", text)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// summary is what must not depend on the number of jobs.
type summary struct {
	Schedules, Steps, States int
	Histories, NewHistories  int
	Complete, Err            string
	Failures                 []string
}

func summarize(r explore.Report, err error) summary {
	sum := summary{Schedules: r.Schedules, Steps: r.Steps, States: r.States, Histories: r.Histories, NewHistories: r.NewHistories, Complete: r.Complete, Err: fmt.Sprint(err)}
	for _, f := range r.Failures {
		sum.Failures = append(sum.Failures, fmt.Sprintf("%s, %d times:\n%s", f.Found(), f.Times, f.Scenario))
	}
	return sum
}

// TestJobsAgree checks that several jobs report the same as one, for searches with and without a failure.
func TestJobsAgree(t *testing.T) {
	t.Parallel()
	faults := sim.FaultSpecs{{Name: "conflict", Rate: 0.1}, {Name: "crash", Target: "pvcontroller", Times: 1}}
	whole := strings.Replace(lateRead, "components: pvcontroller, pvcprotection\n", "nodes: 1\n", 1) // searched in a smaller world first
	moves, err := scenario.Find("pod-moves")
	if err != nil {
		t.Fatal(err)
	}
	expiring := moves.String() // of all components: holds of bounded length end early
	for i, tt := range []struct {
		name  string
		text  string
		cfg   explore.Config
		fails bool
	}{
		{"holds", twoByTwo, explore.Config{Strategy: explore.Holds, Depth: 2}, false},
		{"bound", twoByTwo, explore.Config{Strategy: explore.Holds, Depth: 2, Count: 250}, false},
		{"faults", twoByTwo, explore.Config{Strategy: explore.Faults, Faults: faults}, false},
		{"restarts", twoByTwo, explore.Config{Strategy: explore.Restarts}, false},
		{"random", twoByTwo, explore.Config{Strategy: explore.Random, Count: 100, Faults: faults}, false},
		{"portfolio", twoByTwo, explore.Config{Count: 500, Faults: faults, Restarts: true}, false},
		{"smaller", whole, explore.Config{Count: 100, Faults: faults, Rule: "I1"}, false},
		{"shard", twoByTwo, explore.Config{Strategy: explore.Holds, Depth: 2, Shard: 1, Shards: 3}, false},
		{"found by a hold", lateRead, explore.Config{Strategy: explore.Holds}, true},
		{"found by the portfolio", lateRead, explore.Config{Faults: faults}, true},
		{"found at random", lateRead, explore.Config{Strategy: explore.Random, Seed: 7}, true},
		{"found by pct", lateRead, explore.Config{Strategy: explore.PCT, Faults: faults}, true},
		{"found in a shard", lateRead, explore.Config{Strategy: explore.Holds, Shard: 2, Shards: 3}, true},
		{"found after the smaller world", whole, explore.Config{Rule: "L7", Count: 300}, true},
		{"all failures", lateRead, explore.Config{Count: 120, KeepGoing: true, Faults: faults}, true},
		{"expired holds", expiring, explore.Config{Count: 60}, false},
		{"default order", "user alice\n  wait claim none Bound\n", explore.Config{}, true},
		{"default order, all failures", "user alice\n  wait claim none Bound\n", explore.Config{KeepGoing: true}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sparse(t, i, 5)
			t.Parallel()
			want := summarize(explore.Search(t.Context(), parse(t, tt.text), tt.cfg))
			if (len(want.Failures) > 0) != tt.fails {
				t.Errorf("failures %v", want.Failures)
			}
			for _, jobs := range []int{2, 4, 4} {
				tt.cfg.Jobs = jobs
				got := summarize(explore.Search(t.Context(), parse(t, tt.text), tt.cfg))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%d jobs (-one job +got)\n%s", jobs, diff)
				}
			}
		})
	}
}

// TestJobsOfAnExhaustiveSearch checks that several jobs cover the same orders, and stop at the same failure each time.
func TestJobsOfAnExhaustiveSearch(t *testing.T) {
	t.Parallel()
	cfg := explore.Config{Strategy: explore.Exhaustive, Depth: 2, Jobs: 3}
	complete := summarize(explore.Search(t.Context(), parse(t, twoByTwo), cfg))
	if complete.Complete != "no failure in any order of events with at most 2 deviations" || complete.States == 0 {
		t.Errorf("%+v", complete)
	}
	want := summarize(explore.Search(t.Context(), parse(t, lateRead), cfg))
	if len(want.Failures) != 1 {
		t.Errorf("%+v", want)
	}
	for range 3 {
		got := summarize(explore.Search(t.Context(), parse(t, lateRead), cfg))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-first +again)\n%s", diff)
		}
	}
	cfg.Count = 10
	if r, err := explore.Search(t.Context(), parse(t, twoByTwo), cfg); err != nil || r.Schedules > 10 || r.Complete != "" {
		t.Errorf("up to 10 schedules: %+v, %v", r, err)
	}
}

// TestJobsReportProgress checks that the progress is that of all jobs, one schedule at a time.
func TestJobsReportProgress(t *testing.T) {
	t.Parallel()
	var schedules, steps []int
	violations := 0
	r, err := explore.Search(t.Context(), parse(t, lateRead), explore.Config{
		Strategy: explore.Random, Count: 60, Jobs: 3, KeepGoing: true,
		Progress: func(r explore.Report) {
			schedules, steps = append(schedules, r.Schedules), append(steps, r.Steps)
			violations = 0
			for _, f := range r.Failures {
				violations += f.Times
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(schedules); i++ {
		if more := schedules[i] - schedules[i-1]; more < 0 || more > 1 {
			t.Errorf("%d schedules after %d", schedules[i], schedules[i-1])
		}
	}
	last := len(schedules) - 1
	// The report comes before the last schedule of a job is judged, so up to three violations are missing.
	if schedules[last] != r.Schedules || steps[last] != r.Steps || violations == 0 || violations > r.Failure.Times || violations < r.Failure.Times-3 {
		t.Errorf("at the end %d schedules, %d steps, %d violations; report %+v", schedules[last], steps[last], violations, r)
	}
}

// TestJobsErrors checks what several jobs refuse and how they end early.
func TestJobsErrors(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	script := parse(t, twoByTwo)
	script.Users[0].Script = func(context.Context, *cluster.Cluster) error { return nil }
	for _, tt := range []struct {
		name string
		ctx  context.Context
		s    *scenario.Scenario
		cfg  explore.Config
		want string
	}{
		{"until dry", t.Context(), parse(t, twoByTwo), explore.Config{Jobs: 2, UntilDry: 5}, "want one job"},
		{"script", t.Context(), script, explore.Config{Jobs: 2}, "2 jobs: it has parts in Go"},
		{"negative", t.Context(), parse(t, twoByTwo), explore.Config{Jobs: -1}, "jobs -1: want no negative numbers"},
		{"strategy", t.Context(), parse(t, twoByTwo), explore.Config{Jobs: 2, Strategy: "luck"}, `strategy "luck"`},
		{"component", t.Context(), parse(t, "components: none such\nuser a\n  cordon node-1\n"), explore.Config{Jobs: 2}, "none such"},
		{
			"fault", t.Context(), parse(t, twoByTwo),
			explore.Config{Jobs: 2, Faults: sim.FaultSpecs{{Name: "crash", Target: "kubelet", Times: 1}}},
			`no such target "kubelet"`,
		},
		{"cancelled", cancelled, parse(t, twoByTwo), explore.Config{Jobs: 2}, context.Canceled.Error()},
	} {
		r, err := explore.Search(tt.ctx, tt.s, tt.cfg)
		if err == nil || !strings.Contains(err.Error(), tt.want) || r.Schedules != 0 || r.Failure != nil {
			t.Errorf("%s: %+v, %v", tt.name, r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := explore.Search(ctx, parse(t, twoByTwo), explore.Config{Jobs: 3, Strategy: explore.Random, Progress: func(r explore.Report) {
		if r.Schedules == 20 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || r.Schedules < 20 || r.Schedules > 23 || r.Complete != "" {
		t.Errorf("interrupted: %+v, %v", r, err)
	}
}
