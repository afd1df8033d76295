package sim

import "math/rand/v2"

// newRandom returns the random source of a seed. purpose separates two uses of one seed.
func newRandom(seed, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }

// pct is the Strategy of probabilistic concurrency testing, made fair: each task has a random
// priority, and the highest runs. At depth-1 random steps the task that would run gets a priority
// below all others. After the given number of steps the choice is uniform, so that no task starves.
type pct struct {
	random          *rand.Rand
	priority        map[*Task]int
	priorityChanges map[int]int // by step: the new priority
	depth           int
	steps           int
}

// NewPCT returns the Strategy of probabilistic concurrency testing for a seed: random priorities
// that change at depth-1 random steps. It finds a bug that takes depth events in one order with a
// probability that does not fall as other tasks are added. depth is at least 1. steps is the
// expected length of a run; later choices are uniform, so that no task starves. The strategy is for
// one run.
//
// Upstream: none; S. Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
// Finding Bugs" (2010).
func NewPCT(seed uint64, depth, steps int) Strategy {
	p := &pct{
		random: newRandom(seed, 0x706374), priority: map[*Task]int{}, priorityChanges: map[int]int{},
		depth: depth, steps: steps,
	}
	for i := range depth - 1 {
		p.priorityChanges[1+p.random.IntN(max(1, steps))] = depth - 2 - i
	}
	return p
}

// Decide runs the task of the highest priority.
func (p *pct) Decide(d *Decision) Move {
	if d.Step() > p.steps {
		return Move{Option: p.random.IntN(d.Len())}
	}
	d.Task(d.Len() - 1) // in order, so that priorities are assigned in order
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
		t := d.Task(i)
		if _, ok := p.priority[t]; !ok {
			p.priority[t] = p.depth + p.random.IntN(1<<30)
		}
		if p.priority[t] > p.priority[d.Task(best)] {
			best = i
		}
	}
	return best
}

// pos is the Strategy of partial order sampling.
type pos struct {
	random   *rand.Rand
	priority map[*Task]uint64
}

// NewPOS returns the Strategy of partial order sampling for a seed: each new piece of work gets a
// random priority, and the highest runs. It is for one run.
//
// Upstream: none; X. Yuan et al., "Partial Order Aware Concurrency Sampling" (2018).
func NewPOS(seed uint64) Strategy {
	return &pos{random: newRandom(seed, 0x706f73), priority: map[*Task]uint64{}}
}

// Decide runs the task of the highest priority and drops that priority.
func (p *pos) Decide(d *Decision) Move {
	d.Task(d.Len() - 1) // in order, so that priorities are assigned in order
	best := 0
	for i := range d.Len() {
		t := d.Task(i)
		if _, ok := p.priority[t]; !ok {
			p.priority[t] = p.random.Uint64()
		}
		if p.priority[t] > p.priority[d.Task(best)] {
			best = i
		}
	}
	delete(p.priority, d.Task(best))
	return Move{Option: best}
}

// NewRandom returns the Strategy that draws every choice uniformly.
func NewRandom(seed uint64) Strategy { return chooserStrategy{NewSeeded(seed)} }
