package simtest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/simtest"
)

// searches are the ways to search one scenario, and what each says when nothing is found.
var searches = map[string]struct {
	run  func(t testing.TB, s *scenario.Scenario) explore.Report
	says string
}{
	"holds": {
		func(t testing.TB, s *scenario.Scenario) explore.Report {
			return simtest.Complete(t, s, explore.Config{Strategy: explore.Holds, Depth: 1})
		},
		"no failure with at most 1 hold: ",
	},
	"exhaustive": {
		func(t testing.TB, s *scenario.Scenario) explore.Report {
			return simtest.Complete(t, s, explore.Config{Strategy: explore.Exhaustive, Depth: 1})
		},
		"no failure in any order of events with at most 1 deviation: ",
	},
	"pct": {
		func(t testing.TB, s *scenario.Scenario) explore.Report {
			return simtest.Search(t, s, explore.Config{Strategy: explore.PCT, Depth: 3, Count: 200})
		},
		"no failure: 200 schedules, ",
	},
	"random": {
		func(t testing.TB, s *scenario.Scenario) explore.Report {
			return simtest.Search(t, s, explore.Config{Strategy: explore.Random, Seed: 1, Count: 200})
		},
		"no failure: 200 schedules, ",
	},
}

func twoClaims(t testing.TB, broken cluster.Interceptors) *scenario.Scenario {
	t.Helper()
	s := simtest.Parse(t, smallest)
	s.Extra, s.Interceptors = []cluster.Component{reserver}, broken
	return s
}

// Each way to search says what it has searched.
func TestSearchesSayWhatTheyHaveSearched(t *testing.T) {
	for name, search := range searches {
		said, failed := listen(func(t testing.TB) {
			if r := search.run(t, twoClaims(t, cluster.Interceptors{})); r.Failure != nil || r.Schedules == 0 {
				t.Errorf("%+v", r)
			}
		})
		if failed {
			t.Errorf("%s fails:\n%s", name, said)
		}
		wantWords(t, said, search.says)
	}
}

// overtaken is a scenario that ends otherwise if bob comes before alice.
const overtaken = `components: pvcontroller, pvcprotection
user alice
  create claim c1 1Gi class=
user bob
  delete claim c1
`

// Each way to search finds the schedule that ends otherwise, tells the story, and keeps the failure.
func TestSearchesFailWithTheStory(t *testing.T) {
	for name, search := range searches {
		t.Chdir(t.TempDir())
		find := func(t testing.TB) { search.run(t, simtest.Parse(t, overtaken)) }
		said, failed := listen(find)
		if !failed || len(kept(t)) != 1 {
			t.Errorf("%s: failed: %t, kept: %v\n%s", name, failed, kept(t), said)
		}
		wantWords(t, said, "1 claim Pending; in the default order: empty", "alice creates claim default/c1 of 1Gi",
			"schedule: \"", "replay: go run github.com/volsim/volsim/cmd/volsim replay testdata/explore/TestListened/")
		again, failed := listen(find)
		if !failed || !strings.HasPrefix(again, "testdata/explore/TestListened/") {
			t.Errorf("%s: what was kept does not fail first: failed: %t\n%s", name, failed, again)
		}
	}
}

func TestReplay(t *testing.T) {
	r, err := explore.Search(t.Context(), twoClaims(t, careless), explore.Config{Strategy: explore.Holds})
	if err != nil || r.Failure == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	schedule := r.Failure.Scenario.Schedule.String()
	for name, tt := range map[string]struct {
		broken   cluster.Interceptors
		schedule string
		fails    string // "": it passes
	}{
		"the failure":                {careless, schedule, "I2: a volume rebound"},
		"the failure without defect": {cluster.Interceptors{}, schedule, ""},
		"the default order":          {careless, "", ""},
		"a schedule that is none":    {careless, "16 jump: a", "deviation"},
		"a schedule that does not fit": {
			cluster.Interceptors{}, "16 hold: reserver/cache nodes", "does not fit: 16 hold: reserver/cache nodes: the next task is",
		},
	} {
		said, failed := listen(func(t testing.TB) { simtest.Replay(t, twoClaims(t, tt.broken), tt.schedule) })
		if failed != (tt.fails != "") {
			t.Errorf("%s: failed: %t\n%s", name, failed, said)
		}
		wantWords(t, said, tt.fails)
	}
}

// A schedule whose final state differs from the default order also fails in a replay.
func TestReplayComparesTheEnds(t *testing.T) {
	s := simtest.Parse(t, overtaken+"schedule\n  1 hold: alice\n")
	said, failed := listen(func(t testing.TB) { simtest.Replay(t, s, "") })
	if !failed {
		t.Errorf("it passes:\n%s", said)
	}
	wantWords(t, said, "in the default order: ")
}

func TestReadFailsWithoutTheFile(t *testing.T) {
	said, failed := listen(func(t testing.TB) { simtest.Read(t, "testdata/none.txt") })
	if !failed {
		t.Errorf("it passes:\n%s", said)
	}
	wantWords(t, said, "testdata/none.txt")
}

// A condition that never holds is logged, and fails the test if the scenario names it.
func TestNeverHeld(t *testing.T) {
	world := func(named ...string) *scenario.Scenario {
		s := twoClaims(t, cluster.Interceptors{})
		s.Sometimes = named
		s.OwnRules = append(s.OwnRules, invariant.Rule{ID: "note", Forbids: "nothing", Begin: func(w invariant.World) invariant.Checks {
			return invariant.Checks{Commit: func(e fake.Commit) error {
				w.Log.Sometimes("a pod is written", e.Resource == "pods")
				w.Log.Sometimes("a claim is written", e.Resource == "persistentvolumeclaims")
				return nil
			}}
		}})
		return s
	}
	budget := explore.Config{Count: 5}
	for _, tt := range []struct {
		named []string
		says  string
		fails bool
	}{
		{nil, "calls: a pod is written", false},
		{[]string{"a claim is written"}, "calls: a pod is written", false},
		{[]string{"a pod is written"}, "calls: a pod is written", true},
		{[]string{"a node is lost"}, "never reached: a node is lost", true},
	} {
		said, failed := listen(func(t testing.TB) { simtest.Search(t, world(tt.named...), budget) })
		if failed != tt.fails || !strings.Contains(said, tt.says) || strings.Contains(said, ": a claim is written") {
			t.Errorf("Search, named %q: failed %t:\n%s", tt.named, failed, said)
		}
		said, failed = listen(func(t testing.TB) { simtest.Check(t, *world(tt.named...), simtest.Budget{Schedules: 5}) })
		if failed != tt.fails || !strings.Contains(said, tt.says) || strings.Contains(said, ": a claim is written") {
			t.Errorf("Check, named %q: failed %t:\n%s", tt.named, failed, said)
		}
	}
}

// A search in a test keeps its corpus in a directory such as testdata/corpus, and the next run begins
// with it, although the component is only in Go.
func TestSearchKeepsCorpus(t *testing.T) {
	cfg := explore.Config{Corpus: filepath.Join(t.TempDir(), "testdata", "corpus"), Coverage: true, Count: 40}
	first := simtest.Search(t, twoClaims(t, cluster.Interceptors{}), cfg)
	files, err := filepath.Glob(filepath.Join(cfg.Corpus, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	if s := simtest.Read(t, files[0]); len(s.Schedule) == 0 {
		t.Errorf("%s has no schedule", files[0])
	}
	cfg.Count = len(files) + 1
	again := simtest.Search(t, twoClaims(t, cluster.Interceptors{}), cfg)
	if got, want := circumstances(again), circumstances(first); got < want {
		t.Errorf("the corpus alone reaches %d circumstances, the search that made it %d", got, want)
	}
}

// circumstances returns the number of circumstances that a search exercised.
func circumstances(r explore.Report) int {
	n := 0
	for _, c := range r.Coverage {
		for _, p := range c.Points {
			n += min(p.Times, 1)
		}
	}
	return n
}
