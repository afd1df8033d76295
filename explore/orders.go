package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// orders is a search of all orders of events, depth first. Of two orders that lead to one state it
// continues only the first; see knowledge. Of two steps that do not depend on each other, neither in
// one order nor in the other, it mostly runs only one order; see footprint. The latter are sleep sets:
// a step that was run from a state need not be run again after another one that does not depend on it.
// Local steps of a process are made in blocks; see blockOrder.
//
// Upstream: none; P. Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems" (1996).
type orders struct {
	*search
	parts *parts
	stack []*branching // of the current run
	// visited are the states with more than one alternative, with the steps that were asleep there each
	// time. nil: states are not numbered, and a run ends only if all of its continuations are asleep.
	visited  map[uint64]uint32 // see stepSets
	sets     stepSets
	mishap   mishap
	contents contents // of the last run
	blocks   bool     // see blockOrder
	effects  effects
	compare  func(known, made effect) // nil: known effects are used
	start    int32                    // node of the history graph; 0: histories are not counted
	// unreduced makes all steps from each state, also those that are asleep. Tests compare the two.
	unreduced bool
}

// A mishap is a kind of those faults and events of a search of which one happens in each run.
type mishap uint8

const (
	noMishap mishap = iota
	faultOrCrash
	otherEvent // which may depend on what caches have taken in, so that local steps cannot be made later
)

// newOrders returns the search that exhaustive runs.
func newOrders(e *search, kind mishap) *orders {
	o := &orders{search: e, parts: newParts(), visited: map[uint64]uint32{}, mishap: kind, effects: effects{}, blocks: kind != otherEvent && allowsBlocks(e.scenario)}
	if e.graph != nil {
		o.start = e.graph.start()
	}
	return o
}

// isEmpty reports whether no run needs to be made, since the search has no mishap of the kind.
func (o *orders) isEmpty() bool {
	return o.mishap == otherEvent && !slices.ContainsFunc(o.faultSpecs, func(r sim.FaultSpec) bool {
		_, err := sim.ParseFault(r.Name)
		return err != nil && r.Name != crashEvent
	})
}

// crashEvent is the first word of the event that a process crashes.
const crashEvent = "crash"

// A stepID names a step in all runs: a task, and which of the tasks of that name it is; what happens
// to its call; or an event.
type stepID struct {
	task    string
	process string
	which   int
	calls   bool // it is a request, or one of a user
	fault   string
	event   string
}

// String returns the task, and what happens to its call, or the event.
func (s stepID) String() string {
	if s.fault != "" {
		return s.task + " with " + s.fault
	}
	return s.task + s.event
}

// isMishap reports whether the step is an event, or its call fails.
func (s stepID) isMishap() bool { return s.fault+s.event != "" }

// A step is what happens from a state.
type step struct {
	id      stepID
	uses    footprint
	local   bool // see blockOrder
	invalid bool // it is not part of a blockOrder
}

// wakes reports whether a step that was run from a state must be run again after another one.
func (o *orders) wakes(asleep, last step) bool {
	switch {
	case asleep.id.task == last.id.task || asleep.uses.dependent(last.uses):
		return true
	case !o.blocks || !asleep.local || writesEvents(last.id):
		return false
	}
	// The first local step of a block says nothing of the last one.
	return !last.local || asleep.id.process != last.id.process
}

func hasStep(steps []step, id stepID) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.id == id })
}

// all runs all orders.
func (o *orders) all() error {
	if o.isEmpty() {
		return nil
	}
	for {
		if err := o.next(); err != nil {
			return err
		}
		if !o.backtrack() {
			o.report.Left = 0
			return nil
		}
	}
}

// next makes the steps of the stack, and then others until the world is at rest, or all that follows
// was run.
func (o *orders) next() error {
	r := &ordering{orders: o, observer: newObserver(o.parts), names: map[*sim.Task]stepID{}, counts: map[string]int{}}
	result, err := o.runWithSetup(r, r.watch)
	if err == nil {
		err = r.err
	}
	if err != nil {
		return err
	}
	r.finish()
	if o.start > 0 && !result.Stopped {
		o.graph.pass(endNode, true)
	}
	o.report.States, o.report.Left = len(o.visited), o.left()
	if o.failed(result) {
		return o.found(r.schedule.Schedule, result)
	}
	return nil
}

// left returns the number of steps that are known to be left, at least.
func (o *orders) left() int {
	n := 0
	for _, b := range o.stack {
		n += len(b.todo)
	}
	return n
}

// backtrack goes back to the last state from which a step is left to make, and reports whether
// there is one. It goes on from there by steps whose effects are known.
func (o *orders) backtrack() bool {
	made := true // the last step of the last state, and all that follows it
	for len(o.stack) > 0 {
		b := o.stack[len(o.stack)-1]
		if made {
			b.done = append(b.done, b.last)
			if made = !o.choose(b); made {
				o.stack = o.stack[:len(o.stack)-1]
				continue
			}
		}
		next := o.predict(b)
		if next == nil {
			return true
		}
		made = !o.enter(next)
	}
	return false
}

// choose chooses the next step to make from a state, and reports whether one is left.
func (o *orders) choose(b *branching) bool {
	for len(b.todo) > 0 {
		id := b.todo[0]
		b.todo = b.todo[1:]
		if !b.isAsleep(id) && !hasStep(b.done, id) {
			b.last = step{id: id}
			return true
		}
	}
	return false
}

// An ordering is the Strategy of one run.
type ordering struct {
	*orders
	*observer
	schedule sim.RecordingStrategy
	depth    int // number of steps made
	names    map[*sim.Task]stepID
	counts   map[string]int // by name of a task
	know     *knowledge     // nil: states are not numbered
	host     *sim.Stepped
	block    blockOrder
	happened bool // the mishap
	deviates bool // a step was not the first one
	err      error
}

func (r *ordering) watch(c *cluster.Cluster) {
	r.observer.watch(c)
	r.host = c.Host().(*sim.Stepped)
	if r.visited != nil {
		r.know = newKnowledge(c)
		r.know.contents = &r.contents
		r.contents.begin(r.stack)
		between := r.scenario.Interceptors
		r.know.between = between.Client != nil || between.Driver != nil || between.FS != nil || between.Plugin != nil
	}
	if r.start > 0 {
		r.graph.begin(r.start)
		r.history.take = r.take
	}
}

// take adds to the path in the history graph.
func (r *ordering) take(record trace.Record, found uint64, changes bool) {
	what := mix(mix(found, record.Verb), r.know.named(record.Object))
	if record.Err != nil {
		what = mix(what, "fails")
	}
	r.graph.take(r.know.named(record.Task), what, changes)
}

// Access adds a use of the memory of a process.
func (r *ordering) Access(a sim.Access) {
	if r.know != nil {
		r.know.Access(a)
		if !r.known {
			a.Part = r.know.named(a.Part) // it has the same name in all runs
		}
	}
	r.observer.Access(a)
}

// Decide makes the step of the stack, or the first one that is left to make.
func (r *ordering) Decide(d *sim.Decision) sim.Move {
	uses, local := r.begin(d.Step())
	continues := true
	if r.depth > 0 {
		last := &r.stack[r.depth-1].last
		if !r.known {
			last.uses, last.local = uses, local
		}
		continues = !r.blocks || r.block.add(*last)
		last.invalid = !continues
	}
	all := r.enabled(d)
	enabled := all
	if r.blocks {
		enabled = r.block.restrict(all, r.host.Now())
	}
	if !continues {
		enabled = nil
	}
	if r.depth < len(r.stack) {
		b := r.stack[r.depth]
		if err := b.confirm(enabled); err != nil {
			r.err = fmt.Errorf("scenario %s: at step %d: %w", r.scenario.Name, d.Step(), err)
			return sim.Move{Stop: true}
		}
		if b.node > 0 {
			r.graph.pass(b.node, false)
		}
	} else if !r.push(all, enabled) {
		return sim.Move{Stop: true}
	}
	id := r.stack[r.depth].last.id
	r.depth++
	r.known = r.depth < len(r.stack) // it was made in an earlier run
	r.deviates = r.deviates || id != enabled[0]
	r.happened = r.happened || id.isMishap()
	move := r.move(d, id)
	switch {
	case r.know == nil:
	case move.Event != "":
		r.know.beginEvent(d.Step())
	default:
		r.know.begin(d.Step(), d.Task(move.Option))
	}
	r.schedule.Strategy = fixed{move}
	return r.schedule.Decide(d)
}

// enabled returns the steps that can be made: of tasks in the default order, with a fault, and events.
func (r *ordering) enabled(d *sim.Decision) []stepID {
	all := make([]stepID, d.Len())
	d.Task(d.Len() - 1) // in order
	for i := range all {
		t := d.Task(i)
		id, known := r.names[t]
		if !known {
			r.counts[t.Name()]++
			id = stepID{task: t.Name(), process: t.Process(), which: r.counts[t.Name()]}
			r.names[t] = id
		}
		_, id.calls = t.Pending()
		id.calls = id.calls || t.IsUser()
		all[i] = id
	}
	if r.mishap != noMishap && !r.happened {
		if r.mishap == faultOrCrash {
			all = r.addFaults(all, d)
		}
		all = r.addEvents(all, d)
	}
	return all
}

// addFaults adds the steps whose call fails.
func (r *ordering) addFaults(all []stepID, d *sim.Decision) []stepID {
	for i := range d.Len() {
		t := d.Task(i)
		action, calls := t.Pending()
		if !calls || t.IsUser() {
			continue
		}
		c := call{task: t.Name(), process: t.Process(), action: action}
		for _, spec := range r.faultSpecs {
			fault, err := sim.ParseFault(spec.Name)
			if err == nil && fault.Applies(action) && specMatches(spec, c) {
				id := all[i]
				id.fault = fault.String()
				all = append(all, id)
			}
		}
	}
	return all
}

// addEvents adds the events of the fault specs, and with Config.Restarts all crashes.
func (r *ordering) addEvents(all []stepID, d *sim.Decision) []stepID {
	for _, event := range d.Events() {
		verb, of, _ := strings.Cut(event, " ")
		if (verb == crashEvent) == (r.mishap == faultOrCrash) && (r.matchesSpec(verb, of) || verb == crashEvent && r.cfg.Restarts) {
			all = append(all, stepID{event: event})
		}
	}
	return all
}

// move returns the move of a step.
func (r *ordering) move(d *sim.Decision, id stepID) sim.Move {
	if id.event != "" {
		return sim.Move{Event: id.event}
	}
	var move sim.Move
	if id.fault != "" {
		move.Fault, r.err = sim.ParseFault(id.fault)
		id.fault = ""
	}
	id.calls = false
	for i := range d.Len() {
		if r.names[d.Task(i)] == id {
			move.Option = i
		}
	}
	return move
}

// finish keeps the footprint of the last step.
func (r *ordering) finish() {
	if r.depth == 0 || r.depth < len(r.stack) {
		return
	}
	if last := &r.stack[r.depth-1].last; last.uses == nil {
		last.uses, last.local = r.begin(0)
	}
}

// fixed is the Strategy of one move.
type fixed struct{ move sim.Move }

// Decide returns the move.
func (f fixed) Decide(*sim.Decision) sim.Move { return f.move }
