package sim

import "math/rand/v2"

// random is the source of chance of a seed; what tells two uses of one seed apart.
func random(seed, what uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, what)) }

// PCT is the Strategy of probabilistic concurrency testing, made fair: each actor gets a random priority, the highest is
// moved, and at depth-1 random steps whoever is about to be moved falls behind all others. A bug that takes depth events
// in one order is found with a chance that does not fall as other actors are added. After the given number of steps it
// draws evenly, so that no actor starves. It is for one run.
//
// Upstream: none; S. Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs" (2010).
type PCT struct {
	chance   *rand.Rand
	priority map[*Actor]int
	falls    map[int]int // step: the priority fallen to
	depth    int
	steps    int
}

// NewPCT returns the PCT of a seed. depth is at least 1; steps is how long a run is expected to be.
func NewPCT(seed uint64, depth, steps int) *PCT {
	p := &PCT{chance: random(seed, 0x706374), priority: map[*Actor]int{}, falls: map[int]int{}, depth: depth, steps: steps}
	for i := range depth - 1 {
		p.falls[1+p.chance.IntN(max(1, steps))] = depth - 2 - i
	}
	return p
}

// Decide moves the actor of the highest priority.
func (p *PCT) Decide(d *Decision) Move {
	if d.Step() > p.steps {
		return Move{Option: p.chance.IntN(d.Len())}
	}
	d.Actor(d.Len() - 1) // in order, so that priorities are given out in order
	best := p.highest(d)
	if to, ok := p.falls[d.Step()]; ok {
		p.priority[d.Actor(best)] = to
		best = p.highest(d)
	}
	return Move{Option: best}
}

func (p *PCT) highest(d *Decision) int {
	best := 0
	for i := range d.Len() {
		a := d.Actor(i)
		if _, ok := p.priority[a]; !ok {
			p.priority[a] = p.depth + p.chance.IntN(1<<30)
		}
		if p.priority[a] > p.priority[d.Actor(best)] {
			best = i
		}
	}
	return best
}

// POS is the Strategy of partial order sampling: each piece of work that comes up gets a random priority, and the highest
// is done. It is for one run.
//
// Upstream: none; X. Yuan et al., "Partial Order Aware Concurrency Sampling" (2018).
type POS struct {
	chance   *rand.Rand
	priority map[*Actor]uint64
}

// NewPOS returns the POS of a seed.
func NewPOS(seed uint64) *POS {
	return &POS{chance: random(seed, 0x706f73), priority: map[*Actor]uint64{}}
}

// Decide moves the actor of the highest priority, and takes it away from it.
func (p *POS) Decide(d *Decision) Move {
	d.Actor(d.Len() - 1) // in order, so that priorities are given out in order
	best := 0
	for i := range d.Len() {
		a := d.Actor(i)
		if _, ok := p.priority[a]; !ok {
			p.priority[a] = p.chance.Uint64()
		}
		if p.priority[a] > p.priority[d.Actor(best)] {
			best = i
		}
	}
	delete(p.priority, d.Actor(best))
	return Move{Option: best}
}

// NewRandom returns the Strategy that draws every choice evenly.
func NewRandom(seed uint64) Strategy { return asking{NewSeeded(seed)} }
