package sim

import "math/rand/v2"

// newRandom is the source of chance of a seed; what tells two uses of one seed apart.
func newRandom(seed, what uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, what)) }

// pct is the Strategy of probabilistic concurrency testing, made fair: each actor gets a random priority, the highest is
// moved, and at depth-1 random steps whoever is about to be moved falls behind all others. A bug that takes depth events
// in one order is found with a chance that does not fall as other actors are added. After the given number of steps it
// draws evenly, so that no actor starves. It is for one run.
//
// Upstream: none; S. Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs" (2010).
type pct struct {
	random          *rand.Rand
	priority        map[*Task]int
	priorityChanges map[int]int // step: the priority fallen to
	depth           int
	steps           int
}

// NewPCT returns the PCT of a seed. depth is at least 1; steps is how long a run is expected to be.
func NewPCT(seed uint64, depth, steps int) *pct {
	p := &pct{random: newRandom(seed, 0x706374), priority: map[*Task]int{}, priorityChanges: map[int]int{}, depth: depth, steps: steps}
	for i := range depth - 1 {
		p.priorityChanges[1+p.random.IntN(max(1, steps))] = depth - 2 - i
	}
	return p
}

// Decide moves the actor of the highest priority.
func (p *pct) Decide(d *Decision) Move {
	if d.Step() > p.steps {
		return Move{Option: p.random.IntN(d.Len())}
	}
	d.Task(d.Len() - 1) // in order, so that priorities are given out in order
	best := p.highest(d)
	if to, ok := p.priorityChanges[d.Step()]; ok {
		p.priority[d.Task(best)] = to
		best = p.highest(d)
	}
	return Move{Option: best}
}

func (p *pct) highest(d *Decision) int {
	best := 0
	for i := range d.Len() {
		a := d.Task(i)
		if _, ok := p.priority[a]; !ok {
			p.priority[a] = p.depth + p.random.IntN(1<<30)
		}
		if p.priority[a] > p.priority[d.Task(best)] {
			best = i
		}
	}
	return best
}

// pos is the Strategy of partial order sampling: each piece of work that comes up gets a random priority, and the highest
// is done. It is for one run.
//
// Upstream: none; X. Yuan et al., "Partial Order Aware Concurrency Sampling" (2018).
type pos struct {
	random   *rand.Rand
	priority map[*Task]uint64
}

// NewPOS returns the POS of a seed.
func NewPOS(seed uint64) *pos {
	return &pos{random: newRandom(seed, 0x706f73), priority: map[*Task]uint64{}}
}

// Decide moves the actor of the highest priority, and takes it away from it.
func (p *pos) Decide(d *Decision) Move {
	d.Task(d.Len() - 1) // in order, so that priorities are given out in order
	best := 0
	for i := range d.Len() {
		a := d.Task(i)
		if _, ok := p.priority[a]; !ok {
			p.priority[a] = p.random.Uint64()
		}
		if p.priority[a] > p.priority[d.Task(best)] {
			best = i
		}
	}
	delete(p.priority, d.Task(best))
	return Move{Option: best}
}

// NewRandom returns the Strategy that draws every choice evenly.
func NewRandom(seed uint64) Strategy { return chooserStrategy{NewSeeded(seed)} }
