package explore

import (
	"fmt"
	"slices"
)

// A branching is a state in which steps can be made.
type branching struct {
	all       []stepID // the steps that can be made
	enabled   []stepID // those of them that are part of the order, in the default order
	block     blockOrder
	happened  bool     // the mishap
	renewed   bool     // a process may have begun again: other runs may number its tasks otherwise
	predicted bool     // no run has come to the state
	commits   int      // number of writes before; see contents
	last      step     // that was made last from here
	todo      []stepID // to make from here, besides those done
	done      []step   // that were made from here
	asleep    []step   // whose continuations were run from an earlier state
	known     []step   // others that were made from an earlier state, and use the same from here

	number    uint64       // of the state; 0: it has none
	processes []processSum // if it has a number
	node      int32        // of the history graph; 0: none
	from      int32        // the last node from which no request was made; 0: none
}

// confirm says which steps can be made when a run comes to the state. It fails if there are others than before.
func (b *branching) confirm(enabled []stepID) error {
	same := slices.Equal(enabled, b.enabled)
	if b.predicted && len(enabled) == len(b.enabled) {
		same = !slices.ContainsFunc(enabled, func(id stepID) bool { return !slices.Contains(b.enabled, id) }) // in any order
	}
	switch {
	case same:
		b.enabled, b.predicted = enabled, false
		return nil
	case b.predicted:
		return fmt.Errorf("%v can run, but %v could earlier, when each process remembered the same: one of them does not say all "+
			"that it remembers (sim.Process.Remembers)", enabled, b.enabled)
	}
	return fmt.Errorf("%w: %v can run, earlier %v", ErrNotDeterministic, enabled, b.enabled)
}

func (b *branching) isAsleep(id stepID) bool { return hasStep(b.asleep, id) }

// isInvalid reports whether a step is known not to be part of the order.
func (b *branching) isInvalid(id stepID) bool {
	i := slices.IndexFunc(b.known, func(s step) bool { return s.id == id })
	return i >= 0 && !b.block.allows(b.known[i])
}

// push adds the state of the run to the stack, and reports whether a step is left to make from it.
func (r *ordering) push(all, enabled []stepID) bool {
	b := &branching{all: all, enabled: enabled, block: r.block.clone(), commits: r.contents.next, happened: r.happened}
	b.renewed = r.know != nil && r.know.renewed
	before, key := r.newEffect(b)
	if r.know != nil && (len(enabled) > 1 || before != nil) {
		b.number = r.know.number()
		b.processes = slices.Clone(r.know.sums)
	}
	if before != nil {
		r.keep(key, before, b)
	}
	if !r.enter(b) {
		return false
	}
	if !r.deviates && b.last.id == enabled[0] { // shards divide the work at the first deviation
		b.todo = slices.DeleteFunc(b.todo, func(stepID) bool { return !r.isMine() })
	}
	return true
}

// enter adds a state to the stack, and reports whether a step is left to make from it.
func (o *orders) enter(b *branching) bool {
	o.remember(b)
	b.todo = slices.DeleteFunc(slices.Clone(b.enabled), func(id stepID) bool { return b.isAsleep(id) || b.isInvalid(id) })
	if b.number > 0 && len(b.enabled) > 1 {
		o.visit(b)
	}
	if len(b.todo) == 0 {
		return false
	}
	b.last, b.todo = step{id: b.todo[0]}, b.todo[1:]
	o.stack = append(o.stack, b)
	return true
}

// remember sets what is known of the steps from the coming state. Those are asleep whose continuations
// were run before: they do not depend on the last step, and were asleep or done where it was made.
func (o *orders) remember(b *branching) {
	if len(o.stack) == 0 || o.unreduced {
		return
	}
	before := o.stack[len(o.stack)-1]
	for i, s := range slices.Concat(before.asleep, before.done, before.known) {
		switch {
		case s.id.task == before.last.id.task || s.uses.dependent(before.last.uses):
		case i < len(before.asleep)+len(before.done) && !s.invalid && !o.wakes(s, before.last):
			b.asleep = append(b.asleep, s)
		case o.blocks && !hasStep(b.asleep, s.id):
			b.known = append(b.known, s)
		}
	}
}

// visit leaves only those steps to make that were not made from the same state before.
func (o *orders) visit(b *branching) {
	number := b.number
	if b.happened {
		number = mix(number, "mishap")
	}
	if b.block.isOpen() && o.isCovered(b, number) {
		b.todo = nil
		o.reach(b, number)
		return
	}
	number = b.block.number(number)
	o.reach(b, number)
	set, visited := o.visited[number]
	var skipped []stepID
	if visited {
		before := o.sets.steps(set)
		b.todo = slices.DeleteFunc(b.todo, func(id stepID) bool { return !slices.Contains(before, id) })
		skipped = keep(before, b.isAsleep)
	} else {
		for _, s := range b.asleep {
			skipped = append(skipped, s.id)
		}
	}
	o.visited[number] = o.sets.number(skipped)
}

// isCovered reports whether all steps to make within a block were made from the same state between two
// blocks. From there, the same steps may follow, and more: see blockOrder.allows.
func (o *orders) isCovered(b *branching, between uint64) bool {
	set, visited := o.visited[between]
	if !visited {
		return false
	}
	before := o.sets.steps(set)
	return !slices.ContainsFunc(b.todo, func(id stepID) bool { return slices.Contains(before, id) })
}

// reach adds the state to the history graph.
func (o *orders) reach(b *branching, number uint64) {
	if o.start == 0 {
		return
	}
	b.node = o.graph.node(mix(number, fmt.Sprint("of search ", o.mishap)))
	if b.from > 0 {
		o.graph.begin(b.from)
	}
	o.graph.pass(b.node, true)
	b.from = b.node
}
