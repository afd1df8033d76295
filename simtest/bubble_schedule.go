package simtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A gateStrategy decides which blocked call proceeds. It is for one run. Unlike a chooser it sees the
// calls. It is sim.Strategy for a bubble, which has no tasks.
type gateStrategy interface {
	decide(g gate) gateMove
	applied() sim.Schedule // the deviations from the default order so far
}

// A gate is the alternatives at one step.
type gate struct {
	step  int
	calls []*blockedCall // in the default order
	slow  bool           // time may pass instead
}

// A gateMove is the decision of a gateStrategy. The zero value follows the default order.
type gateMove struct {
	option int       // index of the call; len(calls): time passes
	fault  sim.Fault // that the call suffers
}

// heldSteps is the number of decisions for which a held watch is last, as in sim.
const heldSteps = 60

// shiftMax is the number of steps by which a deviation may be late.
const shiftMax = 20

// A gateSchedule is the strategy that applies a schedule. A held request proceeds when no other call
// is blocked; so does each event of a held watch, for a bounded number of decisions.
//
// A deviation applies at its step, or at one of the next steps at which its subject proceeds (a pick:
// is blocked): steps shift a little between runs.
type gateSchedule struct {
	left   sim.Schedule // not applied yet
	missed sim.Schedule // could not be applied
	done   sim.Schedule

	held      []heldCall
	decisions int // decisions with more than one call
}

// A heldCall is a request or a watch that is held.
type heldCall struct {
	call  *blockedCall // the request; nil: a watch
	watch string
	since int
}

func newGateSchedule(schedule sim.Schedule) *gateSchedule {
	return &gateSchedule{left: slices.Clone(schedule)}
}

func (s *gateSchedule) applied() sim.Schedule { return s.done }

// mismatch describes the first deviation that was not applied, "" if all were.
func (s *gateSchedule) mismatch() string {
	if missed := append(slices.Clone(s.missed), s.left...); len(missed) > 0 {
		return fmt.Sprintf("%s: not possible", missed[0])
	}
	return ""
}

// decide applies the deviations that are due.
func (s *gateSchedule) decide(g gate) gateMove {
	s.held = slices.DeleteFunc(s.held, func(h heldCall) bool { return s.decisions-h.since > heldSteps })
	if len(g.calls) > 1 {
		s.decisions++
	}
	move := gateMove{option: s.next(g)}
	picked := false
	for i := 0; i < len(s.left) && s.left[i].Step <= g.step; {
		d := s.left[i]
		pick := d.What == sim.DeviationPick
		switch {
		case !(pick && picked) && s.apply(g, d, &move):
			picked = picked || pick
		case g.step-d.Step >= shiftMax:
			s.missed = append(s.missed, d)
		default:
			i++
			continue
		}
		s.left = slices.Delete(s.left, i, i+1)
	}
	return move
}

// apply applies a deviation if it is possible now.
func (s *gateSchedule) apply(g gate, d sim.Deviation, move *gateMove) bool {
	if move.option == len(g.calls) {
		return false // time passes
	}
	call := g.calls[move.option]
	if d.What == sim.DeviationPick {
		i := find(g, d.Subject)
		if i < 0 {
			return false
		}
		move.option = i
	} else if d.Subject != "" && d.Subject != call.String() {
		return false
	} else {
		d.Subject = call.String()
	}
	switch d.What {
	case sim.DeviationPick:
	case sim.DeviationHold:
		s.held = append(s.held, hold(call, s.decisions))
		move.option = s.next(g)
	default:
		fault, err := sim.ParseFault(d.What)
		if err != nil || !fault.Applies(call.action) {
			return false
		}
		move.fault = fault
	}
	d.Step = g.step
	s.done = append(s.done, d)
	return true
}

// next returns the first call that is not held, or the one that was held first.
func (s *gateSchedule) next(g gate) int {
	best, rank := 0, len(s.held)
	for i, call := range g.calls {
		of := slices.IndexFunc(s.held, func(h heldCall) bool { return h.call == call || h.call == nil && h.watch == watchOf(call) })
		if of < 0 {
			return i
		}
		if of < rank {
			best, rank = i, of
		}
	}
	return best
}

func hold(call *blockedCall, since int) heldCall {
	if watch := watchOf(call); watch != "" {
		return heldCall{watch: watch, since: since}
	}
	return heldCall{call: call, since: since}
}

// watchOf returns the client and the resource of a delivery, "" for a request.
func watchOf(call *blockedCall) string {
	if call.action.Kind != trace.KindDeliver {
		return ""
	}
	resource, _, _ := strings.Cut(call.action.Object, "/")
	return call.name + " " + resource
}

// timePasses is the subject of a pick that lets time pass.
const timePasses = "time"

// find returns the index of the call with a label, -1 if it is not blocked.
func find(g gate, label string) int {
	if label == timePasses && g.slow {
		return len(g.calls)
	}
	return slices.IndexFunc(g.calls, func(call *blockedCall) bool { return call.String() == label })
}

// A gateProbe follows a strategy and records the alternatives.
type gateProbe struct {
	gateStrategy
	choiceSteps []int      // steps with more than one call
	calls       []gateCall // that proceeded
	steps       int
}

// A gateCall is a call in a run.
type gateCall struct {
	step   int
	label  string
	name   string // of the client
	action trace.Action
	byTest bool
}

func (p *gateProbe) decide(g gate) gateMove {
	p.steps = g.step
	if len(g.calls) > 1 {
		p.choiceSteps = append(p.choiceSteps, g.step)
	}
	move := p.gateStrategy.decide(g)
	if move.option < len(g.calls) {
		call := g.calls[move.option]
		p.calls = append(p.calls, gateCall{g.step, call.String(), call.name, call.action, call.byTest})
	}
	return move
}
