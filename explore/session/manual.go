package session

import (
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A manualStrategy is the strategy of a session: the default order, except for held tasks.
type manualStrategy struct {
	held        []string            // components and tasks, in the order in which they were held
	replay      *sim.ReplayStrategy // of the world's schedule; nil: none
	want        string              // the task to run, perhaps with a number; "": the first in the default order that is not held
	fault       sim.Fault
	faultTarget string // the component whose call fails, or a prefix of the call's verb; "": any
}

// Decide picks the task to run. It stops the run if there is none.
func (h *manualStrategy) Decide(d *sim.Decision) sim.Move {
	if h.replay != nil && h.want == "" {
		move := h.replay.Decide(d)
		if move.Event != "" || !h.isHeld(d.Task(move.Option).Name()) {
			return h.withFault(d, move)
		}
	}
	name, skip := splitTaskNumber(h.want)
	for i := range d.Len() {
		a := d.Task(i)
		switch {
		case h.want == "" && h.isHeld(a.Name()), h.want != "" && name != a.Name():
			continue
		case skip > 1: // of several tasks of this name, a later one
			skip--
			continue
		}
		return h.withFault(d, sim.Move{Option: i})
	}
	return sim.Move{Stop: true}
}

// splitTaskNumber splits "provisioner/volumes#2" into the name of the tasks and a number.
func splitTaskNumber(task string) (name string, number int) {
	name = trace.TrimTaskNumber(task)
	number, err := strconv.Atoi(strings.TrimPrefix(task[len(name):], "#"))
	if err != nil || number < 1 {
		return task, 1
	}
	return name, number
}

// withFault returns the move, in which a call suffers the pending fault if it applies.
func (h *manualStrategy) withFault(d *sim.Decision, move sim.Move) sim.Move {
	if move.Event != "" || move.Fault.Kind != "" {
		return move
	}
	a := d.Task(move.Option)
	if action, calls := a.Pending(); calls && h.faultApplies(a.Process(), action) {
		move.Fault, h.fault = h.fault, sim.Fault{}
	}
	return move
}

// faultApplies reports whether a call is the one that fails.
func (h *manualStrategy) faultApplies(component string, action trace.Action) bool {
	return h.fault.Kind != "" && h.fault.Applies(action) &&
		(h.faultTarget == "" || h.faultTarget == component || strings.HasPrefix(action.Verb, h.faultTarget))
}

// isHeld reports whether a task or its component is held.
func (h *manualStrategy) isHeld(task string) bool {
	return slices.Contains(h.held, task) || slices.Contains(h.held, trace.Process(task))
}
