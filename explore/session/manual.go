package session

import (
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// manualStrategy is the strategy of somebody who decides by hand: the ordinary course, but for what is held.
type manualStrategy struct {
	held        []string // parts and actors, in the order in which they were held
	want        string   // the actor whose turn it is; "": the first in the ordinary course that is not held
	fault       sim.Fault
	faultTarget string // the part whose call goes wrong, or with what the call's verb begins; "": any
}

// Decide finds whose turn it is. Where that is nobody, nothing happens.
func (h *manualStrategy) Decide(d *sim.Decision) sim.Move {
	for i := range d.Len() {
		a := d.Task(i)
		if h.want == "" && h.isHeld(a.Name()) || h.want != "" && h.want != a.Name() {
			continue
		}
		move := sim.Move{Option: i}
		if action, calls := a.Pending(); calls && h.faultApplies(a.Process(), action) {
			move.Fault, h.fault = h.fault, sim.Fault{}
		}
		return move
	}
	return sim.Move{Stop: true}
}

// faultApplies tells whether a call is the one that goes wrong.
func (h *manualStrategy) faultApplies(part string, action trace.Action) bool {
	return h.fault.Kind != "" && h.fault.Applies(action) &&
		(h.faultTarget == "" || h.faultTarget == part || strings.HasPrefix(action.Verb, h.faultTarget))
}

// isHeld tells whether an actor is held: itself, or its part.
func (h *manualStrategy) isHeld(actor string) bool {
	return slices.Contains(h.held, actor) || slices.Contains(h.held, trace.Process(actor))
}
