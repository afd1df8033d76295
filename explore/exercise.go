package explore

import (
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
)

// An exercise is a Strategy that follows another one through one run and counts the circumstances of
// each call. A caller has not seen an event that waits for its cache when the call takes effect, nor
// one that the cache took in after the caller had decided on the call.
type exercise struct {
	sim.Strategy
	coverage  *coverage
	caches    map[*sim.Task]string   // the resource of each cache; "" for other tasks
	delivered map[string][]*sim.Task // the caches that have taken in an event, by process
	lastStep  map[*sim.Task]int
	stale     []string    // of the current call
	first     []firstCall // that no schedule before has made
}

// An observedExercise is an exercise of a strategy that is informed of accesses.
type observedExercise struct {
	*exercise
	sim.AccessObserver
}

// Decide counts, and returns the move of the strategy.
func (e observedExercise) Decide(d *sim.Decision) sim.Move { return e.exercise.Decide(d) }

// newExercise returns an exercise, and the strategy of its run.
func newExercise(strategy sim.Strategy, c *coverage) (*exercise, sim.Strategy) {
	e := &exercise{
		Strategy: strategy, coverage: c,
		caches: map[*sim.Task]string{}, delivered: map[string][]*sim.Task{}, lastStep: map[*sim.Task]int{},
	}
	if observer, ok := strategy.(sim.AccessObserver); ok {
		return e, observedExercise{e, observer}
	}
	return e, e
}

// Decide counts, and returns the move of the strategy.
func (e *exercise) Decide(d *sim.Decision) sim.Move {
	move := e.Strategy.Decide(d)
	switch {
	case move.Stop:
	case move.Event != "":
		e.crash(d, move.Event)
	default:
		e.step(d, d.Task(move.Option), move.Fault)
	}
	return move
}

// crash counts the calls of a process that crashes.
func (e *exercise) crash(d *sim.Decision, event string) {
	words, isCrash := strings.CutPrefix(event, crashEvent+" ")
	process, _, old := strings.Cut(words, " with ")
	if !isCrash {
		return
	}
	fault := crashFault
	if old {
		fault = oldListsFault
	}
	for i := range d.Len() {
		if t := d.Task(i); t.Process() == process {
			if _, calls := t.Pending(); calls {
				e.count(d, t, fault)
			}
		}
	}
}

// step counts the call of a task that runs, if it makes one.
func (e *exercise) step(d *sim.Decision, t *sim.Task, fault sim.Fault) {
	if e.cacheOf(t) != "" {
		if caches := e.delivered[t.Process()]; !slices.Contains(caches, t) {
			e.delivered[t.Process()] = append(caches, t)
		}
	} else if action, calls := t.Pending(); calls && !t.IsUser() {
		name := ""
		if fault.Kind != "" && fault.Applies(action) {
			name = fault.String()
		}
		e.count(d, t, name)
	}
	e.lastStep[t] = d.Step()
}

// count counts the call at which a task is suspended.
func (e *exercise) count(d *sim.Decision, t *sim.Task, fault string) {
	e.stale = e.stale[:0]
	for i := range d.Len() {
		if other := d.Task(i); other.Process() == t.Process() {
			e.addStale(e.cacheOf(other))
		}
	}
	for _, cache := range e.delivered[t.Process()] {
		if e.lastStep[cache] > e.lastStep[t] {
			e.addStale(e.cacheOf(cache))
		}
	}
	all := e.coverage.of(t)
	all.times++
	if len(e.stale) == 0 {
		e.exercised(d, all, CoveragePoint{Fault: fault})
		return
	}
	component := componentOf(t.Process())
	known := e.coverage.stale[component]
	if known == nil {
		known = map[string]bool{}
		e.coverage.stale[component] = known
	}
	for _, resource := range e.stale {
		known[resource] = true
		e.exercised(d, all, CoveragePoint{Stale: resource, Fault: fault})
	}
}

func (e *exercise) exercised(d *sim.Decision, c *calls, p CoveragePoint) {
	if c.points[p] == 0 {
		e.first = append(e.first, firstCall{c, p, d.Step()})
	}
	c.points[p]++
}

func (e *exercise) addStale(resource string) {
	if resource != "" && !slices.Contains(e.stale, resource) {
		e.stale = append(e.stale, resource)
	}
}

// cacheOf returns the resource of the cache that a task delivers to; "": it delivers to none.
func (e *exercise) cacheOf(t *sim.Task) string {
	resource, known := e.caches[t]
	if !known {
		_, name, _ := strings.Cut(t.Name(), "/")
		resource, _ = strings.CutPrefix(name, "cache ")
		if resource == name {
			resource = ""
		}
		e.caches[t] = resource
	}
	return resource
}
