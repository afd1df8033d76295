package explore

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// exhaustive runs every order of events, or every one with at most bound deviations from the default
// order (0: any number). Without a bound, it also runs every order in which one of the faults or
// events of the search happens, when it has run all others.
func (e *search) exhaustive(bound int) error {
	if bound > 0 {
		return e.exhaust(bound, map[uint64]int{}, false)
	}
	if e.cfg.Shards == 1 { // the others have run the rest
		e.graph = newHistoryGraph()
	}
	if err := newOrders(e, noMishap).all(); err != nil {
		return err
	}
	e.report.Complete = "no failure in any order of events"
	if len(e.faultSpecs) == 0 && !e.cfg.Restarts {
		return nil
	}
	for _, kind := range []mishap{faultOrCrash, otherEvent} {
		if err := newOrders(e, kind).all(); err != nil {
			return err
		}
	}
	e.report.Complete = fmt.Sprintf("no failure in any order of events, also with one of %s anywhere", e.mishaps())
	return nil
}

// countHistories sets the number of histories of a complete search of all orders of events.
func (r *Report) countHistories(g *historyGraph) {
	if g == nil || r.Complete == "" || r.Failure != nil {
		return
	}
	n, more := g.count(historyPlacesMax)
	r.Histories = int(min(n, math.MaxInt))
	words := fmt.Sprintf("%d histories", r.Histories)
	if r.Histories == 1 {
		words = "1 history"
	}
	if more {
		words = "at least " + words
	}
	r.Complete += ": " + words
}

// mishaps returns the faults and events of the search in words.
func (e *search) mishaps() string {
	words := e.faultSpecs.String()
	if e.cfg.Restarts {
		words = strings.TrimPrefix(words+", a restart", ", ")
	}
	return words
}

// exhaust runs every order of events with at most bound deviations from the default order (0: any
// number). It backtracks to the last choice that has another alternative. A run ends at a state that was
// visited before with at least as many deviations left. exhaust adds the states that it visits to met.
// ignoreMet runs on at visited states.
func (e *search) exhaust(bound int, met map[uint64]int, ignoreMet bool) error {
	var prefix []int
	for {
		d := &descent{prefix: prefix, bound: bound, met: met, ignoreMet: ignoreMet}
		recording := &sim.RecordingStrategy{Strategy: d}
		r, err := e.runWithSetup(observed{recording, d}, d.begin)
		if err != nil {
			return err
		}
		e.report.States = len(met)
		if e.failed(r) {
			if err := e.found(recording.Schedule, r); err != nil {
				return err
			}
		}
		if prefix = e.next(d); prefix == nil {
			break
		}
	}
	e.report.Complete = fmt.Sprintf("no failure in any order of events with at most %s", plural(bound, "deviation"))
	return nil
}

// next returns the choices of the next run, nil if all were made. Shards divide the work at the
// first deviation.
func (e *search) next(d *descent) []int {
	for i := len(d.choices) - 1; i >= 0; i-- {
		first := !slices.ContainsFunc(d.choices[:i], func(c int) bool { return c > 0 })
		for c := d.choices[i] + 1; c < d.widths[i]; c++ {
			if !first || e.isMine() {
				return append(slices.Clone(d.choices[:i]), c)
			}
		}
	}
	return nil
}

// observed is a RecordingStrategy whose inner strategy observes accesses.
type observed struct {
	*sim.RecordingStrategy
	sim.AccessObserver
}

// Decide returns the move of the inner strategy.
func (o observed) Decide(d *sim.Decision) sim.Move { return o.RecordingStrategy.Decide(d) }

// A descent is one run of an exhaustive search: given choices first, the default order after them.
type descent struct {
	prefix    []int
	choices   []int // made where there was more than one alternative
	widths    []int // number of alternatives
	bound     int
	used      int            // deviations
	met       map[uint64]int // state: the fewest deviations that led to it
	ignoreMet bool
	know      *knowledge
}

func (d *descent) begin(c *cluster.Cluster) { d.know = newKnowledge(c) }

// Access says that the running step reads a cache.
func (d *descent) Access(a sim.Access) { d.know.Access(a) }

// Decide returns the next given choice, or the default. It stops the run where nothing new follows.
func (d *descent) Decide(of *sim.Decision) sim.Move {
	choice := 0
	if of.Len() > 1 {
		i := len(d.choices)
		if i < len(d.prefix) {
			choice = d.prefix[i]
		} else if d.isKnown(of) {
			return sim.Move{Stop: true}
		}
		width := of.Len()
		if d.bound > 0 && d.used >= d.bound {
			width = 1
		}
		if choice > 0 {
			d.used++
		}
		d.choices, d.widths = append(d.choices, choice), append(d.widths, width)
	}
	d.know.begin(of.Step(), of.Task(choice))
	return sim.Move{Option: choice}
}

// isKnown reports whether the state was visited before, with no fewer deviations left. If
// deviations are bounded, the last-run order of the tasks is part of the state.
func (d *descent) isKnown(of *sim.Decision) bool {
	state := d.know.number()
	if d.bound > 0 {
		for _, name := range of.LastRunOrder() {
			state = mix(state, name)
		}
	}
	used, met := d.met[state]
	if met && used <= d.used {
		return !d.ignoreMet
	}
	d.met[state] = d.used
	return false
}
