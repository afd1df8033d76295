package explore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim/trace"
)

// smallShare is the part of the schedules, one in so many, that are run in the smaller world at
// most.
const smallShare = 4

// searchSmaller searches the world of the components that acted in the default order, before the
// whole one is searched: its schedules are shorter and fewer. It does so if the scenario selects no
// components, and if the default order of both worlds is the same for those that take part. A
// component that is absent is one that never runs again, so what violates a rule there violates it in
// the whole world, too. What is pending at rest may be due to the absence, and does not count. The
// statement of completeness is about the whole world.
func (e *search) searchSmaller(strategy Strategy) error {
	if e.scenario.Components != nil || e.cfg.KeepGoing || e.states != nil || e.smaller {
		return nil
	}
	components := e.defaultRun.Acting(e.scenario)
	s := *e.scenario
	s.Components = components
	small := *e
	small.scenario, small.smaller, small.report, small.considered, small.histories = &s, true, Report{}, 0, newHistories()
	small.elsewhere, small.coverage, small.corpus = 0, nil, nil
	small.defaultRun, small.calls, small.choiceSteps = nil, nil, nil
	small.cfg.Count = (e.cfg.Count - e.counted()) / smallShare
	if e.cfg.Progress != nil {
		small.cfg.Progress = func(r Report) {
			all := e.report
			all.Schedules, all.Steps = all.Schedules+r.Schedules, all.Steps+r.Steps
			e.cfg.Progress(all)
		}
	}
	small.earlier = e.counted()
	err := small.searchLike(strategy, e.defaultRun)
	e.report.Schedules += small.report.Schedules
	e.report.Steps += small.report.Steps
	e.report.AddConditions(small.report.Conditions)
	e.elsewhere += min(small.elsewhere, small.cfg.Count-small.report.Schedules) // none beyond the bound
	switch f := small.report.Failure; {
	case f != nil:
		e.report.Failure, e.report.Failures = f, small.report.Failures
		return errEnough
	case errors.Is(err, ErrNotDeterministic), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		return nil // the bound, or a fault spec about a component that is absent
	}
}

// searchLike searches the world if its default order is like another.
func (e *search) searchLike(strategy Strategy, whole *scenario.Result) error {
	if e.cfg.Count < 2 {
		return errEnough
	}
	if err := e.runDefault(); err != nil {
		return err
	}
	r := e.defaultRun
	if r.Failure != nil || !maps.Equal(r.Outcome, whole.Outcome) || !slices.Equal(e.writes(r), e.writes(whole)) {
		return errEnough
	}
	return e.searchWith(strategy)
}

// writes returns what processes changed after the set-up, each once: process, verb and resource,
// sorted.
func (e *search) writes(r *scenario.Result) []string {
	found := map[string]bool{}
	for _, one := range r.Trace.Records() {
		if one.Step > r.SetupEnd && one.Kind == trace.KindAPI && one.After != nil {
			found[trace.Process(one.Task)+" "+one.Verb+" "+one.Resource()] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// isSound reports whether a failure in a smaller world is one of the whole world.
func isSound(failure error) bool {
	var violation *invariant.Violation
	var panicked *scenario.Panic
	return errors.As(failure, &violation) && !violation.AtRest || errors.As(failure, &panicked)
}

// smallerWorld describes the world of a failure that was found in the smaller one.
func smallerWorld(components []string) string {
	if len(components) == 0 {
		return "a world without components of the control plane"
	}
	return "the world of the components " + strings.Join(components, ", ")
}
