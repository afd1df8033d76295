package scenario

import (
	"errors"
	"slices"

	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// Picture says how a run under the scenario's schedule is to be drawn, so that a picture of r.Trace tells what its Story does:
// of the objects of the failure, after the set-up, with the schedule's deviations, and the rule that is broken.
func Picture(s *Scenario, r *Result) picture.Options {
	all := r.Trace.Records()
	o := picture.Options{Title: s.Name, Objects: castOf(all, r.Failure).About(), After: r.Began, Verdict: verdict(r)}
	if len(s.About) > 0 {
		o.Title += ": " + s.About[0]
	}
	var violation *invariant.Violation
	if errors.As(r.Failure, &violation) {
		o.Broken = violation.Step
	}
	began := slices.IndexFunc(all, func(one trace.Record) bool { return one.Step > r.Began })
	if began < 0 {
		began = len(all)
	}
	later := all[began:]
	trace.Number(later)
	for _, d := range s.Schedule {
		for len(later) > 0 && later[0].Turn < d.Step {
			later = later[1:]
		}
		if d.What != sim.Event && d.What != sim.Pick { // events are in the trace, and who is moved out of turn is seen there
			o.Remarks = append(o.Remarks, picture.Remark{Turn: d.Step, Words: mark(d, later)})
		}
	}
	return o
}
