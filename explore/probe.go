package explore

import (
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A probe replays a schedule and records the alternatives.
type probe struct {
	*sim.ReplayStrategy
	recordCalls bool           // records calls, too
	choiceSteps []int          // steps with more than one alternative
	calls       []call         // the calls that were made
	taskSteps   map[string]int // the number of steps by task
}

// A call is a call in a run.
type call struct {
	step    int
	task    string
	process string
	action  trace.Action
	user    bool
}

// Decide returns the move of the schedule.
func (p *probe) Decide(d *sim.Decision) sim.Move {
	if d.Len() > 1 {
		p.choiceSteps = append(p.choiceSteps, d.Step())
	}
	move := p.ReplayStrategy.Decide(d)
	if p.recordCalls && move.Event == "" {
		a := d.Task(move.Option)
		p.taskSteps[a.Name()]++
		if action, calls := a.Pending(); calls {
			p.calls = append(p.calls, call{d.Step(), a.Name(), a.Process(), action, a.IsUser()})
		}
	}
	return move
}
