package explore

import (
	"fmt"
	"slices"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// exhaustive runs every order of events, or every one with at most bound deviations from the
// default order (0: any number). It backtracks to the last choice that has another alternative. A
// run ends at a state that was visited before with at least as many deviations left.
func (e *search) exhaustive(bound int) error { return e.exhaust(bound, map[uint64]int{}, false) }

// exhaust adds the states that it visits to met. ignoreMet runs on at visited states.
func (e *search) exhaust(bound int, met map[uint64]int, ignoreMet bool) error {
	var prefix []int
	for {
		d := &descent{prefix: prefix, bound: bound, met: met, ignoreMet: ignoreMet}
		recording := &sim.RecordingStrategy{Strategy: d}
		r, err := e.runWithSetup(recording, d.begin)
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
	e.report.Complete = "no failure in any order of events"
	if bound > 0 {
		e.report.Complete = fmt.Sprintf("no failure in any order of events with at most %s", plural(bound, "deviation"))
	}
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

// A descent is one run of an exhaustive search: given choices first, the default order after them.
type descent struct {
	prefix    []int
	choices   []int // made where there was more than one alternative
	widths    []int // number of alternatives
	bound     int
	used      int            // deviations
	met       map[uint64]int // state: the fewest deviations that led to it
	ignoreMet bool
	state     *state
}

func (d *descent) begin(c *cluster.Cluster) { d.state = newState(c) }

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
	d.state.taskRan(of.Task(choice).Name())
	return sim.Move{Option: choice}
}

// isKnown reports whether the state was visited before, with no fewer deviations left. If
// deviations are bounded, the last-run order of the tasks is part of the state.
func (d *descent) isKnown(of *sim.Decision) bool {
	state := d.state.now()
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
