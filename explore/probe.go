package explore

import (
	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// probe follows a plan, and notes where it could have gone otherwise.
type probe struct {
	*sim.Plan
	noting bool   // calls, too
	wide   []int  // the steps at which there was a choice
	calls  []call // those that were made
}

// call is a call in a run.
type call struct {
	step      int
	actor     string
	component string
	action    trace.Action
	user      bool
}

// Decide asks the plan.
func (p *probe) Decide(d *sim.Decision) sim.Move {
	if d.Len() > 1 {
		p.wide = append(p.wide, d.Step())
	}
	move := p.Plan.Decide(d)
	if p.noting && move.Event == "" {
		a := d.Actor(move.Option)
		if action, calls := a.Pending(); calls {
			p.calls = append(p.calls, call{d.Step(), a.Name(), a.Component(), action, a.IsUser()})
		}
	}
	return move
}

// counting does as a strategy does, and counts states.
type counting struct {
	sim.Strategy
	states *states
	state  *state
}

func (w *counting) begin(c *cluster.Cluster) { w.state = newState(c) }

// Decide counts the state that is left, and asks the strategy.
func (w *counting) Decide(d *sim.Decision) sim.Move {
	w.states.add(w.state.now())
	move := w.Strategy.Decide(d)
	if move.Event == "" && !move.Stop {
		w.state.moved(d.Actor(move.Option).Name())
	}
	return move
}
