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
	switch {
	case move.Stop:
	case move.Event != "":
		w.know.beginEvent(d.Step())
	default:
		w.know.begin(d.Step(), d.Task(move.Option))
	}
	return move
}

// contents are the hashes of what was written in a run, in order; see knowledge.contentOf. The next run
// begins with the same writes.
type contents struct {
	hashes []uint64
	next   int // index of the next write
}

// begin begins a run that makes the same steps up to the last state of a stack.
func (c *contents) begin(stack []*branching) {
	c.next = 0
	if len(stack) > 0 {
		c.hashes = c.hashes[:stack[len(stack)-1].commits]
	}
}

// of returns the hash of the next write, which hash computes if it is not known.
func (c *contents) of(hash func() uint64) uint64 {
	if c == nil {
		return hash()
	}
	if c.next == len(c.hashes) {
		c.hashes = append(c.hashes, hash())
	}
	c.next++
	return c.hashes[c.next-1]
}
