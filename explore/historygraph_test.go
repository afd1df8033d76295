package explore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

// historyWorlds are so small that every order of their events can be run. With blocks, orders are left out that
// differ only in when a process makes its local steps.
var historyWorlds = []struct {
	name, text string
	blocks     bool
}{
	{tinyWorlds[0].name, tinyWorlds[0].text, false},
	{tinyWorlds[1].name, tinyWorlds[1].text, false},
	{tinyWorlds[2].name, tinyWorlds[2].text, false},
	{"a volume", "components: pvcontroller\nuser a\n  create volume v 1Gi\n", false},
	{"a claim that goes, and a controller", blockWorlds[2].text, true},
	{"a volume that goes", blockWorlds[3].text, true},
}

// TestHistoriesOfACompleteSearch compares the number of histories of a complete search with that of one that
// numbers no states: it runs all orders, except those that differ only in steps that do not depend on each
// other.
func TestHistoriesOfACompleteSearch(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range historyWorlds {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			begin := func() *search {
				return beginSearch(t, tt.name, "ends: differ\n"+tt.text, Config{Strategy: Exhaustive, Count: 100_000})
			}
			all := begin()
			var err error
			if tt.blocks {
				err = (&orders{search: all, parts: newParts(), blocks: true}).all()
			} else {
				err = (&races{orders: orders{search: all, parts: newParts()}}).all()
			}
			if err != nil {
				t.Fatal(err, all.report.Schedules)
			}
			e := begin()
			if err := e.exhaustive(0); err != nil {
				t.Fatal(err)
			}
			run := e.report.Histories
			e.report.countHistories(e.graph)
			t.Logf("%d histories in %d runs; %s, %d of them run", all.report.Histories, all.report.Schedules, e.report.Complete, run)
			if e.report.Histories != all.report.Histories {
				t.Errorf("%d histories, want %d", e.report.Histories, all.report.Histories)
			}
			shared, err := Search(t.Context(), e.scenario, Config{Strategy: Exhaustive, Jobs: 2})
			if err != nil || shared.Complete == "" || shared.Histories != all.report.Histories {
				t.Errorf("two jobs: %q, %d histories, error %v; want %d", shared.Complete, shared.Histories, err, all.report.Histories)
			}
		})
	}
}

// TestHistoryGraphCountsHistories compares the number of histories of drawn graphs with that of enumerating all of
// their paths. A count of the paths, or one in which all entries keep their order, must differ from it.
func TestHistoryGraphCountsHistories(t *testing.T) {
	differ := map[string]int{}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		graphs := []*historyGraph{newHistoryGraph(), newHistoryGraph()}
		nodes := 3 + random.IntN(6)
		var texts [][]string // by node: of the histories from it on
		histories, paths, words := map[string]bool{}, 0, map[string]bool{}
		texts = append(texts, []string{""})
		for n := 1; n <= nodes; n++ {
			texts = append(texts, nil)
			for range 1 + random.IntN(3) {
				g := graphs[random.IntN(2)]
				to := random.IntN(n)
				if n == nodes {
					g.begin(g.start())
				} else {
					g.begin(g.node(uint64(n)))
				}
				text := ""
				for range random.IntN(4) {
					task, what, changes := random.IntN(2), random.IntN(2), random.IntN(2) > 0
					g.take(fmt.Sprint(task), uint64(what), changes)
					text += fmt.Sprintf("%d/%d/%v ", task, what, changes)
				}
				if to == 0 {
					g.pass(endNode, true)
				} else {
					g.pass(g.node(uint64(to)), true)
				}
				for _, rest := range texts[to] {
					texts[n] = append(texts[n], text+rest)
				}
			}
		}
		for _, text := range texts[nodes] {
			paths++
			words[text] = true
			var order string
			tasks := map[byte]string{}
			for _, entry := range strings.Fields(text) {
				tasks[entry[0]] += entry + " "
				if strings.HasSuffix(entry, "true") {
					order += entry[:1]
				}
			}
			histories[fmt.Sprint(order, tasks)] = true
		}
		graphs[0].add(graphs[1])
		if n, more := graphs[0].count(1_000_000); n != uint64(len(histories)) || more {
			t.Fatalf("seed %d: %d histories (more: %v), want %d: %q", seed, n, more, len(histories), texts[nodes])
		}
		if n, more := graphs[0].count(5); n > uint64(len(histories)) || n < uint64(len(histories)) && !more {
			t.Fatalf("seed %d: at least %d histories (more: %v) of %d", seed, n, more, len(histories))
		}
		if paths != len(histories) {
			differ["paths"]++
		}
		if len(words) != len(histories) {
			differ["words"]++
		}
	}
	if differ["paths"] == 0 || differ["words"] == 0 {
		t.Errorf("numbers that differ from that of histories: %v, want both", differ)
	}
}
