package explore

import "slices"

// effects are the effects of local steps, by what their process knows and by step. Which local steps can be
// made, and what they do, follows from what the process knows, and from nothing outside. So the search runs
// such a step only once. From any other state in which the process knows the same it predicts the next
// state, until a step follows that is not local or not known.
type effects map[uint64]effect

// An effect is what a local step does.
type effect struct {
	uses footprint
	own  []stepID   // the steps of the process that can be made after it
	then processSum // what the process knows after it
}

// usesEffects reports whether local steps are made in blocks, and not shared by shards, which divide the
// work at steps that are made.
func (o *orders) usesEffects() bool { return o.blocks && o.cfg.Shards == 1 }

// newEffect returns the state from which the last step of the run was made, and the key of its effect, if the
// step is local and its effect is not known yet. nil: it is not.
func (r *ordering) newEffect(b *branching) (before *branching, key uint64) {
	if !r.usesEffects() || r.depth == 0 {
		return nil, 0
	}
	before = r.stack[r.depth-1]
	if b.renewed || !before.last.isLocal() || !before.last.id.mayBeLocal() || !before.block.now.Equal(b.block.now) {
		return nil, 0
	}
	key, ok := before.effectKey(before.last.id)
	if _, known := r.effects[key]; known && r.compare == nil || !ok {
		return nil, 0
	}
	return before, key
}

// keep keeps the effect of the step from one state to the next. It keeps none if the step begins tasks:
// another run may have begun others of the name.
func (r *ordering) keep(key uint64, before, b *branching) {
	process := before.last.id.process
	i := indexOfProcess(b.processes, process)
	own := stepsOf(b.all, process)
	if i < 0 || slices.ContainsFunc(own, func(id stepID) bool { return id.which > 1 && !slices.Contains(before.all, id) }) {
		return
	}
	made := effect{before.last.uses, own, b.processes[i]}
	if known, found := r.effects[key]; found {
		r.compare(known, made)
	}
	r.effects[key] = made
}

// predict returns the state after the last step from a state. nil: it is not known.
func (o *orders) predict(b *branching) *branching {
	if !o.usesEffects() || o.compare != nil || b.renewed || !b.last.id.mayBeLocal() || o.start > 0 && b.from == 0 {
		return nil
	}
	key, ok := b.effectKey(b.last.id)
	e, known := o.effects[key]
	if !known || !ok {
		return nil
	}
	process := b.last.id.process
	all := append(slices.DeleteFunc(slices.Clone(b.all), func(id stepID) bool { return id.process == process && id.event == "" }), e.own...)
	if len(all) == 0 {
		return nil // time passes
	}
	b.last.uses, b.last.local = e.uses, true
	next := &branching{all: all, block: b.block.clone(), happened: b.happened, predicted: true, commits: b.commits, from: b.from}
	next.block.add(b.last)
	next.enabled = next.block.restrict(slices.Clone(all), b.block.now)
	next.processes = slices.Clone(b.processes)
	p := &next.processes[indexOfProcess(b.processes, process)]
	next.number = b.number - p.sum + e.then.sum
	*p = e.then
	return next
}

// effectKey returns a number for a step and all that decides on its effect. ok: the state has a number.
func (b *branching) effectKey(id stepID) (key uint64, ok bool) {
	i := indexOfProcess(b.processes, id.process)
	if i < 0 {
		return 0, false
	}
	key = finish(b.processes[i].sum + finish(b.processes[i].caches) + uint64(id.which))
	for _, other := range stepsOf(b.all, id.process) {
		key += mix(uint64(other.which), other.task+other.fault)
	}
	if b.happened { // its requests cannot fail
		key++
	}
	return mix(finish(key), id.task), true
}

// stepsOf returns the steps of a process.
func stepsOf(all []stepID, process string) []stepID {
	return keep(all, func(id stepID) bool { return id.process == process && id.event == "" })
}

// mayBeLocal reports whether the step may be local: it is a delivery, or the beginning of a worker's work.
func (id stepID) mayBeLocal() bool { return !id.calls && !id.isMishap() && !writesEvents(id) }
