package explore

import (
	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// probe follows a plan, and notes where it could have gone otherwise.
type probe struct {
	*sim.ReplayStrategy
	recordCalls bool   // calls, too
	choiceSteps []int  // the steps at which there was a choice
	calls       []call // those that were made
}

// call is a call in a run.
type call struct {
	step    int
	task    string
	process string
	action  trace.Action
	user    bool
}

// Decide asks the plan.
func (p *probe) Decide(d *sim.Decision) sim.Move {
	if d.Len() > 1 {
		p.choiceSteps = append(p.choiceSteps, d.Step())
	}
	move := p.ReplayStrategy.Decide(d)
	if p.recordCalls && move.Event == "" {
		a := d.Task(move.Option)
		if action, calls := a.Pending(); calls {
			p.calls = append(p.calls, call{d.Step(), a.Name(), a.Process(), action, a.IsUser()})
		}
	}
	return move
}

// stateCounter does as a strategy does, and counts states.
type stateCounter struct {
	sim.Strategy
	states *states
	state  *state
}

func (w *stateCounter) begin(c *cluster.Cluster) { w.state = newState(c) }

// Decide counts the state that is left, and asks the strategy.
func (w *stateCounter) Decide(d *sim.Decision) sim.Move {
	w.states.add(w.state.now())
	move := w.Strategy.Decide(d)
	if move.Event == "" && !move.Stop {
		w.state.taskRan(d.Task(move.Option).Name())
	}
	return move
}
