package explore

import "slices"

// barren leaves out local steps after which no other step of their block follows that is not local. Most
// deliveries are of this kind: nothing of the process needs them yet.
//
// Which local steps can be made, and what they do, follows from what their process knows, and from nothing
// outside. So it is enough to make those that follow a local step once, in the first of the states in which
// the process knows the same. Whether a request of the process needs a local step may depend on its
// answer. So two states are the same only if the requests that can be made use the same memory.
type barren struct {
	known   map[uint64]prospect // less than a request, by process, what it knows, and step
	visited map[uint64]prospect // of states within a block
}

// A prospect is what follows a step within its block.
type prospect uint8

const (
	nothing  prospect = iota // no step of the process that is not local
	atRest                   // as nothing, but all local steps of the process have been made
	requests                 // a step that is not local
)

func newBarren() barren {
	return barren{known: map[uint64]prospect{}, visited: map[uint64]prospect{}}
}

// findsBarren reports whether barren steps are left out. A shard does not make all steps, so it cannot know
// what follows one.
func (o *orders) findsBarren() bool { return o.blocks && o.cfg.Shards == 1 }

// skips reports whether a step need not be made from a state.
func (o *orders) skips(b *branching, id stepID) bool {
	if !o.findsBarren() || !id.mayBeLocal() {
		return false
	}
	key, complete := o.localKey(b, id)
	if !complete {
		return false
	}
	p, known := o.barren.known[key]
	if !known || p == atRest && b.mayTrail(id.process) {
		return false
	}
	b.best = max(b.best, p)
	return true
}

// learn keeps what follows the last step from a state.
func (o *orders) learn(b *branching) {
	if !o.findsBarren() {
		return
	}
	p := b.follows
	if !b.last.isLocal() && !writesEvents(b.last.id) {
		p = requests
	}
	b.best = max(b.best, p)
	if p == requests || !b.last.isLocal() || b.sleeps(b.last.id.process) {
		return
	}
	if key, complete := o.localKey(b, b.last.id); complete {
		o.barren.known[key] = p
	}
}

// sleeps reports whether a local step of a process is asleep. Then another step may be barren only since
// this one was made before.
func (b *branching) sleeps(process string) bool {
	return slices.ContainsFunc(b.asleep, func(s step) bool { return s.id.process == process && s.id.mayBeLocal() })
}

// leave keeps what follows the steps of a state, and the step that led to it.
func (o *orders) leave(b *branching) {
	if !o.findsBarren() {
		return
	}
	p := requests
	switch {
	case b.trailing:
		p = atRest
	case b.open:
		p = b.best
		if b.number > 0 {
			p = max(p, o.barren.visited[b.number])
			o.barren.visited[b.number] = p
		}
	}
	o.follow(p)
}

// prospectOf returns what follows the steps of a state within a block that was visited before.
func (o *orders) prospectOf(number uint64) prospect {
	if p, known := o.barren.visited[number]; known {
		return p
	}
	return requests // its steps are being made
}

// follow says what follows the last step of the last state of the stack.
func (o *orders) follow(p prospect) {
	if len(o.stack) > 0 {
		b := o.stack[len(o.stack)-1]
		b.follows = max(b.follows, p)
	}
}

// localKey returns a number for a local step, and for all that decides what follows it in its block: what
// the process knows, and what its requests use of that. complete: all requests have been made.
func (o *orders) localKey(b *branching, id stepID) (key uint64, complete bool) {
	i := slices.IndexFunc(b.processes, func(s processSum) bool { return s.process == id.process })
	if i < 0 {
		return 0, false
	}
	key = b.block + finish(b.processes[i].sum)
	for _, request := range b.enabled {
		if request.process != id.process || request.mayBeLocal() {
			continue
		}
		uses, found := b.usesOf(request)
		if !found {
			return 0, false
		}
		key += mix(o.parts.hash(uses, id.process), request.task+request.fault)
	}
	return mix(finish(key+uint64(id.which)), id.task), true
}

// usesOf returns what a step uses from the state, if it was made from there or from an earlier one.
func (b *branching) usesOf(id stepID) (uses footprint, found bool) {
	for _, steps := range [][]step{b.done, b.asleep, b.known} {
		if i := slices.IndexFunc(steps, func(s step) bool { return s.id == id }); i >= 0 {
			return steps[i].uses, true
		}
	}
	return nil, false
}

// mayTrail reports whether the local steps of a process may be made as trailing ones.
func (b *branching) mayTrail(process string) bool {
	if b.open {
		return b.trails
	}
	return mayTrail(b.enabled, process)
}

// mayTrail reports whether no step but local ones can be made of other processes, and none of those that
// come first.
func mayTrail(enabled []stepID, process string) bool {
	return !slices.ContainsFunc(enabled, func(id stepID) bool {
		return id.process != process && (id.calls || id.process < process) && id.event == ""
	})
}

// mayBeLocal reports whether the step may be local: it is a delivery, or the beginning of a worker's work.
func (id stepID) mayBeLocal() bool { return !id.calls && !id.isMishap() && !writesEvents(id) }
