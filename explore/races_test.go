package explore

import "slices"

// races is a search of all orders of events that numbers no states: dynamic partial-order reduction
// with source sets and sleep sets. After each run it looks for two steps of different tasks that depend
// on each other, with none between them that depends on the first and on which the second depends.
// At the point of the first it then plans a step that leads to the second one without the first. It
// takes more runs than orders, and knows nothing of states, so the tests compare the two.
//
// Upstream: none; P. Abdulla et al., "Optimal Dynamic Partial Order Reduction" (2014), algorithm
// Source-DPOR.
type races struct {
	orders
	blind bool // all steps are made from each state
}

// all runs all orders.
func (p *races) all() error {
	known := 0 // steps whose races are planned
	for {
		if err := p.next(); err != nil {
			return err
		}
		if !p.blind {
			for _, b := range p.stack[known:] {
				b.todo = nil // unless a race is found
			}
			p.planReversals(known)
		}
		if p.blind {
			for _, b := range p.stack {
				b.asleep = nil
			}
		}
		if !p.backtrack() {
			return nil
		}
		known = len(p.stack) - 1
	}
}

// planReversals finds the races of each step from the given one on with earlier steps.
func (p *races) planReversals(from int) {
	n := len(p.stack)
	before := make([]bitset, n) // by step: those that happen before it
	last := map[string]int{}
	for j, b := range p.stack {
		hb := newBitset(n)
		before[j] = hb
		if i, ok := last[b.last.id.task]; ok {
			hb.add(before[i])
			hb.set(i)
		}
		last[b.last.id.task] = j
		for i := j - 1; i >= 0; i-- {
			if hb.has(i) || !p.stack[i].last.uses.dependent(b.last.uses) {
				continue
			}
			if j >= from {
				p.planReversal(i, j, before)
			}
			hb.add(before[i])
			hb.set(i)
		}
	}
}

// planReversal plans a step at the point of step i that leads to step j without step i.
func (p *races) planReversal(i, j int, before []bitset) {
	at := p.stack[i]
	var candidates []stepID
	var earlier []int // steps of the sequence without i
	for k := i + 1; k <= j; k++ {
		if k < j && before[k].has(i) {
			continue
		}
		id := p.stack[k].last.id
		first := !slices.ContainsFunc(earlier, func(e int) bool { return p.stack[e].last.id == id || before[k].has(e) })
		earlier = append(earlier, k)
		if first && slices.Contains(at.enabled, id) {
			candidates = append(candidates, id)
		}
	}
	isPlanned := func(id stepID) bool {
		return at.last.id == id || slices.Contains(at.todo, id) || hasStep(at.done, id)
	}
	if len(candidates) > 0 && !slices.ContainsFunc(candidates, isPlanned) {
		at.todo = append(at.todo, candidates[0])
	}
}

// A bitset is a set of steps.
type bitset []uint64

func newBitset(n int) bitset    { return make(bitset, (n+63)/64) }
func (b bitset) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bitset) add(other bitset) {
	for i, word := range other {
		b[i] |= word
	}
}
