package explore

import (
	"maps"
	"slices"
	"testing"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// tinyWorlds are so small that every order of their events can be run.
var tinyWorlds = []struct{ name, text string }{
	{"a claim that goes", "components: pvcprotection\nuser a\n  create claim c 1Gi class=\n  delete claim c\n"},
	{"two claims that go", "components: pvcprotection\n" +
		"user a\n  create claim c 1Gi class=\n  delete claim c\nuser b\n  create claim d 1Gi class=\n  delete claim d\n"},
	{"a claim that a pod uses", "components: pvcprotection\n" +
		"user a\n  create claim c 1Gi class=\n  delete claim c\nuser b\n  create pod web c on=node-1\n  delete pod web now=true\n"},
	{"a controller that crashes", "components: pvcprotection\n" +
		"user a\n  create claim c 1Gi class=\n  delete claim c\nuser b\n  let crash pvcprotection\n"},
	{"a second controller", "components: pvcprotection\nuser a\n  let replicate pvcprotection\n  create claim c 1Gi class=\n"},
}

// TestOrdersLoseNothing compares three searches of all orders of events. One runs every order to its
// end. One runs no two orders that differ only in steps that do not depend on each other: it must see
// the same histories. One stops at known states: it must visit the same states.
func TestOrdersLoseNothing(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range tinyWorlds {
		t.Run(tt.name, func(t *testing.T) {
			begin := func() *search {
				return beginSearch(t, tt.name, tt.text, Config{Strategy: Exhaustive, Count: 200_000})
			}
			blind, states := begin(), map[uint64]int{}
			if err := blind.exhaust(0, states, true); err != nil {
				t.Fatal(err, blind.report.Schedules)
			}
			reduced := &races{orders: orders{search: begin(), parts: newParts()}}
			if err := reduced.all(); err != nil {
				t.Fatal(err)
			}
			pruned := newOrders(begin(), noMishap)
			pruned.blocks = false // see TestBlocksLoseNothing
			if err := pruned.all(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d orders, %d histories, %d states; by races %d runs, by states %d",
				blind.report.Schedules, blind.report.Histories, len(states), reduced.report.Schedules, pruned.report.Schedules)
			if got, want := sortedKeys(reduced.histories.seen), sortedKeys(blind.histories.seen); !slices.Equal(got, want) {
				t.Errorf("%d histories, want %d", len(got), len(want))
			}
			if got, want := sortedKeys(pruned.visited), sortedKeys(states); !slices.Equal(got, want) {
				t.Errorf("%d states, want %d", len(got), len(want))
			}
		})
	}
}

func sortedKeys[V any](m map[uint64]V) []uint64 { return slices.Sorted(maps.Keys(m)) }

// beginSearch returns the search of a world that has run its default order.
func beginSearch(t *testing.T, name, text string, cfg Config) *search {
	t.Helper()
	s, err := scenario.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newSearch(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.runDefault(); err != nil {
		t.Fatal(err)
	}
	return e
}
