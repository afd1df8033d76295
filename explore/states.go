package explore

import (
	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// states is the set of visited states.
type states struct{ seen map[uint64]struct{} }

func newStates() *states { return &states{map[uint64]struct{}{}} }

func (s *states) add(state uint64) { s.seen[state] = struct{}{} }
func (s *states) count() int       { return len(s.seen) }

// A stateCounter follows a strategy and counts states.
type stateCounter struct {
	sim.Strategy
	states *states
	know   *knowledge
}

func (w *stateCounter) begin(c *cluster.Cluster) { w.know = newKnowledge(c) }

// Access says that the running step reads a cache.
func (w *stateCounter) Access(a sim.Access) { w.know.Access(a) }

// Decide counts the current state and returns the move of the strategy.
func (w *stateCounter) Decide(d *sim.Decision) sim.Move {
	w.states.add(w.know.number())
	move := w.Strategy.Decide(d)
	if move.Event == "" && !move.Stop {
		w.know.begin(d.Step(), d.Task(move.Option))
	}
	return move
}
