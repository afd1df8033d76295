package sim

import (
	"runtime"
	"slices"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

func (s *Stepped) recordEvent(name string) {
	s.changes++
	s.record(eventTask, actionOf(name), trace.Outcome{}, 0)
}

func (s *Stepped) record(task string, action trace.Action, out trace.Outcome, took time.Duration) {
	if out.After != nil || action.Kind == trace.KindDriver && !out.Read {
		if s.current == nil || s.current.beats == nil {
			s.changes++
		}
	}
	r := trace.Record{
		At: s.since(), Task: task, Action: action, Outcome: out, Took: took, HostStep: s.steps - s.strategyStart,
	}
	if s.callers && (action.Kind == trace.KindAPI || action.Kind == trace.KindDriver) {
		s.log.AppendCall(r, callers())
		return
	}
	s.log.Append(r)
}

// callers returns the call stack of the task that acts. Its frame is too large for record.
//
//go:noinline
func callers() []uintptr {
	var frames [framesMax]uintptr
	return slices.Clone(frames[:runtime.Callers(3, frames[:])])
}

// framesMax is the maximum number of frames of a recorded stack. Clients and operators have deep
// ones.
const framesMax = 128
