package explore_test

import (
	"cmp"
	"flag"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// wholeTable makes TestTable measure all of its rows; see make explore-table.
var wholeTable = flag.Bool("table", false, "measure all rows of the tables of strategies")

// tableWorlds are the worlds of the first table.
var tableWorlds = []string{"two-claims-two-volumes", "claim-recreated", "pod-moves"}

// tableStrategies are the strategies of both tables.
var tableStrategies = []explore.Config{
	{Strategy: explore.Holds, Depth: 2},
	{Strategy: explore.POS},
	{Strategy: explore.Walk},
	{Strategy: explore.PCT},
	{Strategy: explore.Random},
	{Strategy: explore.Portfolio, Depth: 2},
}

// TestTable measures strategies: what they see of worlds without a defect, and how soon they find
// those mutants that depend on the order of events. Without -table it measures one row of each.
func TestTable(t *testing.T) {
	testcheck.Stepped(t)
	t.Run("worlds", func(t *testing.T) {
		worlds, count := tableWorlds, 1000
		if !*wholeTable {
			worlds, count = worlds[:1], 50
		}
		fmt.Printf("%-24s %-10s %9s %8s %8s %9s %8s\n", "world", "strategy", "schedules", "orders", "states", "histories", "seconds")
		for _, name := range worlds {
			for _, cfg := range tableStrategies {
				worldRow(t, name, cfg, count)
			}
		}
	})
	t.Run("README", func(t *testing.T) {
		text, err := os.ReadFile("../README.md")
		if err != nil {
			t.Fatal(err)
		}
		claim := regexp.MustCompile(`explore (\S+) --strategy holds --depth 2\n +(\d+ schedules, \d+ histories), .*, (\d+ steps)`).FindSubmatch(text)
		if claim == nil {
			t.Fatal("the README has no search with two holds")
		}
		r := worldRow(t, string(claim[1]), explore.Config{Strategy: explore.Holds, Depth: 2}, explore.SchedulesMax)
		testcheck.Equal(t, "README", fmt.Sprintf("%s, %s", claim[2], claim[3]),
			fmt.Sprintf("%d schedules, %d histories, %d steps", r.Schedules, r.Histories, r.Steps))
	})
	t.Run("mutants that depend on the order", func(t *testing.T) {
		rows, seeds, count := orderMutants(), 20, 600
		if !*wholeTable {
			rows, seeds, count = rows[:1], 3, 100
		}
		mutantHead(len(rows), seeds, count)
		for _, cfg := range tableStrategies {
			cfg.NoFaults = true
			mutantRow(t, rows, cfg, seeds, count)
		}
	})
	t.Run("all mutants", func(t *testing.T) {
		rows, seeds, count := everyMutant(), 5, 600
		if !*wholeTable {
			rows, seeds, count = rows[:5], 1, 100
		}
		mutantHead(len(rows), seeds, count)
		mutantRow(t, rows, explore.Config{Restarts: true}, seeds, count)
	})
}

func mutantHead(mutants, seeds, count int) {
	fmt.Printf("%d mutants, %d seeds, at most %d schedules\n%-10s %7s %5s %6s %9s\n", mutants, seeds, count, "strategy", "median", "p95", "worst", "not found")
}

// An orderCounter counts the different orders of events: the traces of a search.
type orderCounter struct {
	seen    map[uint64]bool
	current hash.Hash64 // of the run so far
}

func (o *orderCounter) watch(c *cluster.Cluster) {
	o.end()
	sum := fnv.New64a()
	o.current = sum
	c.Trace().Watch(func(r trace.Record) { io.WriteString(sum, r.String()) })
}

// end adds the current run.
func (o *orderCounter) end() {
	if o.seen == nil {
		o.seen = map[uint64]bool{}
	}
	if o.current != nil {
		o.seen[o.current.Sum64()] = true
	}
	o.current = nil
}

func (o *orderCounter) count() int {
	o.end()
	return len(o.seen)
}

// worldRow searches a world.
func worldRow(t *testing.T, name string, cfg explore.Config, count int) explore.Report {
	t.Helper()
	s, err := scenario.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Count, cfg.NoFaults = count, true
	begin := time.Now()
	r, err := explore.Search(t.Context(), s, cfg)
	if err != nil || r.Failure != nil {
		t.Fatal(r.Failure, err)
	}
	seconds := time.Since(begin).Seconds()
	cfg.States = true
	var orders orderCounter
	cfg.Watch = orders.watch
	counted, err := explore.Search(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%-24s %-10s %9d %8d %8d %9d %8.2f\n", name, cfg.Strategy, r.Schedules, orders.count(), counted.States, r.Histories, seconds)
	if r.Histories < 2 || r.Histories > r.Schedules {
		t.Errorf("%d histories in %d schedules", r.Histories, r.Schedules)
	}
	return r
}

// orderMutants returns the mutants that the default order does not show, and no fault is needed for.
func orderMutants() []mutant {
	return slices.DeleteFunc(everyMutant(), func(m mutant) bool {
		return m.within < 4 || m.config.Strategy != explore.Holds && m.config.Strategy != explore.PCT
	})
}

// mutantRow searches for each mutant from each seed.
func mutantRow(t *testing.T, rows []mutant, cfg explore.Config, seeds, count int) {
	t.Helper()
	var all []int
	missed := 0
	for _, m := range rows {
		for seed := range seeds {
			s := m.scene(t, true, "")
			one := cfg
			one.Seed, one.Count, one.ShrinkRuns = uint64(1000*seed), count, 1
			r, err := explore.Search(t.Context(), s, one)
			if err != nil {
				t.Fatal(m.name, err)
			}
			found := count
			if r.Failure != nil {
				found = r.Failure.Schedules
			} else {
				missed++
			}
			all = append(all, found)
			if cfg.Strategy == explore.Holds {
				break // draws nothing
			}
		}
	}
	slices.Sort(all)
	fmt.Printf("%-10s %7d %5d %6d %9d\n", cmp.Or(cfg.Strategy, explore.Portfolio), all[len(all)/2], all[len(all)*95/100], all[len(all)-1], missed)
	if missed == len(all) {
		t.Errorf("%s finds no mutant", cfg.Strategy)
	}
}
