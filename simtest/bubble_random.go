package simtest

import (
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
)

// A gateRandom is a randomized strategy. It injects faults up to a number of steps, so that the code
// under test can then recover.
type gateRandom struct {
	chance   sim.Chooser
	priority map[*blockedCall]int // of partial order sampling; nil: uniform
	faults   []armedFault
	steps    int
	done     sim.Schedule
}

// scale is the number of different priorities, and of steps of a rate.
const scale = 1 << 30

// An armedFault is a fault spec during a run.
type armedFault struct {
	sim.FaultSpec
	fault sim.Fault
	steps []int // of a number of times: the drawn steps, in order
}

// newGateRandom returns the strategy of a seed. Even seeds draw a priority for each call, as
// sim.NewPOS does; odd ones draw uniformly. The specs name faults. steps is the expected length of a run.
func newGateRandom(seed uint64, specs sim.FaultSpecs, steps int) *gateRandom {
	s := &gateRandom{chance: sim.NewSeeded(seed), steps: steps + steps/2}
	if seed%2 == 0 {
		s.priority = map[*blockedCall]int{}
	}
	for _, spec := range specs {
		fault, _ := sim.ParseFault(spec.Name) // they were checked before
		f := armedFault{FaultSpec: spec, fault: fault}
		for range spec.Times {
			f.steps = append(f.steps, 1+s.chance.Choose(max(1, s.steps)))
		}
		slices.Sort(f.steps)
		s.faults = append(s.faults, f)
	}
	return s
}

func (s *gateRandom) applied() sim.Schedule { return s.done }

// decide draws the call and its fault, and records them.
func (s *gateRandom) decide(g gate) gateMove {
	move := gateMove{option: s.draw(g)}
	label := timePasses
	if move.option < len(g.calls) {
		label = g.calls[move.option].String()
	}
	if move.option > 0 {
		s.done = append(s.done, sim.Deviation{Step: g.step, What: sim.DeviationPick, Subject: label})
	}
	if move.option == len(g.calls) || g.step > s.steps {
		return move
	}
	for i := range s.faults {
		if f := &s.faults[i]; move.fault.Kind == "" && f.matches(g.calls[move.option]) && f.drawn(s.chance, g.step) {
			move.fault = f.fault
			s.done = append(s.done, sim.Deviation{Step: g.step, What: f.fault.String(), Subject: label})
		}
	}
	return move
}

// draw returns the index of the call that proceeds.
func (s *gateRandom) draw(g gate) int {
	if s.priority == nil {
		n := len(g.calls)
		if g.slow {
			n++
		}
		return s.chance.Choose(n)
	}
	best := 0
	for i, call := range g.calls {
		if _, ok := s.priority[call]; !ok {
			s.priority[call] = s.chance.Choose(scale)
		}
		if s.priority[call] > s.priority[g.calls[best]] {
			best = i
		}
	}
	delete(s.priority, g.calls[best])
	return best
}

// matches reports whether the fault can be injected into a call. Requests that the goroutine of run
// makes do not fail.
func (f *armedFault) matches(call *blockedCall) bool {
	return !call.byTest && f.fault.Applies(call.action) && targets(f.FaultSpec, call.name, call.action.Verb)
}

// targets reports whether a spec covers the calls of a client with a verb.
func targets(spec sim.FaultSpec, client, verb string) bool {
	return spec.Target == "" || strings.HasPrefix(client, spec.Target) || strings.HasPrefix(verb, spec.Target)
}

// drawn reports whether the fault happens now.
func (f *armedFault) drawn(chance sim.Chooser, step int) bool {
	if f.Times == 0 {
		return float64(chance.Choose(scale)) < f.Rate*scale
	}
	if len(f.steps) == 0 || f.steps[0] > step {
		return false
	}
	f.steps = f.steps[1:]
	return true
}
