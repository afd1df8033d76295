package scenario

import (
	"errors"
	"slices"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// pictureObjects returns the objects that a picture shows, nil for all claims, volumes, pods and
// attachments.
func pictureObjects(related *causality.RelatedObjects) []string {
	if selected := related.Selected(); selected != nil || len(related.Own()) == 0 {
		return selected
	}
	return related.Written()
}

// Picture returns the options with which a picture of r.Trace shows the same as Story: the objects
// of the failure, after the set-up, with the schedule's deviations and the violated rule.
func Picture(s *Scenario, r *Result) picture.Options {
	all := r.Trace.Records()
	o := picture.Options{
		Title: s.Name, Objects: pictureObjects(relatedObjects(s, all, r.Failure)),
		Reads: r.Trace.Reads(), After: r.SetupEnd, Verdict: describeResult(r),
	}
	if len(s.About) > 0 {
		o.Title += ": " + s.About[0]
	}
	var violation *invariant.Violation
	if errors.As(r.Failure, &violation) {
		o.ViolationStep = violation.Step
	}
	began := slices.IndexFunc(all, func(one trace.Record) bool { return one.Step > r.SetupEnd })
	if began < 0 {
		began = len(all)
	}
	later := all[began:]
	trace.NumberHostSteps(later)
	for _, d := range s.Schedule {
		for len(later) > 0 && later[0].HostStep < d.Step {
			later = later[1:]
		}
		if d.What != sim.DeviationEvent && d.What != sim.DeviationPick { // the trace shows events and picks
			o.Remarks = append(o.Remarks, picture.Remark{HostStep: d.Step, Words: describeDeviation(d, later)})
		}
	}
	return o
}
