package explore

import (
	"fmt"
	"slices"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// exhaustive runs every order of events, or every one that leaves the ordinary course at most bound times (0: any number),
// by going back to the last choice that has another outcome. A run ends where it comes to a state that was met before, with
// at least as many deviations left.
func (e *search) exhaustive(bound int) error { return e.exhaust(bound, map[uint64]int{}, false) }

// exhaust fills met with the states that it comes to. blind says not to stop at those that were met before.
func (e *search) exhaust(bound int, met map[uint64]int, blind bool) error {
	var prefix []int
	for {
		d := &descent{prefix: prefix, bound: bound, met: met, ignoreMet: blind}
		noting := &sim.RecordingStrategy{Strategy: d}
		r, err := e.runWithSetup(noting, d.begin)
		if err != nil {
			return err
		}
		e.report.States = len(met)
		if e.failed(r) {
			if err := e.found(noting.Schedule, r); err != nil {
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

// next is the choices of the run after this one, or nil if all were made. The work is shared by the first deviation.
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

// descent is one run of an exhaustive search: given choices first, and the ordinary course from there on.
type descent struct {
	prefix    []int
	choices   []int // those made where there was more than one
	widths    []int // among how many
	bound     int
	used      int            // deviations
	met       map[uint64]int // state: the fewest deviations with which it was come to
	ignoreMet bool
	state     *state
}

func (d *descent) begin(c *cluster.Cluster) { d.state = newState(c) }

// Decide makes the next of the given choices, or the ordinary one; it stops where there is nothing new to come to.
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

// isKnown tells whether the state was met before, with no fewer deviations left. Where they are counted, it matters also whose
// turn it is by the ordinary course.
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
