package explore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// smallShare is the part of the schedules, one in so many, that are run in the smaller world at
// most.
const smallShare = 4

// searchSmaller searches the world of the components that acted in the default order, before the
// whole one is searched: its schedules are shorter and fewer. It does so if the scenario selects no
// components, and if the default order of both worlds is the same for those that take part. A
// component that is absent is one that never runs again, so what violates a rule there violates it in
// the whole world, too. What violates a rule at rest may be due to the absence, so it counts if it also
// does when the others take part after all: see tryWhole. What is pending at rest does not count. The
// statement of completeness is about the whole world.
func (e *search) searchSmaller(strategy Strategy) error {
	if e.scenario.Components != nil || e.cfg.KeepGoing || e.states != nil || e.smaller {
		return nil
	}
	components := e.defaultRun.Acting(e.scenario)
	s := *e.scenario
	s.Components = components
	small := *e
	small.scenario, small.smaller, small.whole = &s, true, e
	small.report, small.considered, small.histories = Report{}, 0, newHistories()
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

// tryWhole runs a schedule of the smaller world in the whole one: the components of the smaller world make
// the same steps, and the others make theirs afterwards, or before if nothing else can go on. It ends the
// search if that fails, too.
func (e *search) tryWhole(schedule sim.Schedule) error {
	made := &madeMoves{strategy: sim.NewReplayStrategy(schedule), processes: map[string]bool{}}
	if _, err := e.runUncounted(made); err != nil {
		return err
	}
	scenario, defaultRun, whole := e.scenario, e.defaultRun, e.whole
	e.scenario, e.defaultRun, e.whole = whole.scenario, whole.defaultRun, nil
	defer func() { e.scenario, e.defaultRun, e.whole = scenario, defaultRun, whole }()
	recording := &sim.RecordingStrategy{Strategy: &sameMoves{madeMoves: made}}
	r, err := e.runUncounted(recording)
	if err == nil && e.failed(r) {
		err = e.found(recording.Schedule, r)
	}
	return err
}

// madeMoves is a Strategy that notes the moves of another one.
type madeMoves struct {
	strategy  sim.Strategy
	moves     []madeMove
	processes map[string]bool // that could run
}

type madeMove struct {
	task  string // without its number
	fault sim.Fault
	event string
}

// Decide returns the move of the other strategy.
func (m *madeMoves) Decide(d *sim.Decision) sim.Move {
	for i := range d.Len() {
		m.processes[d.Task(i).Process()] = true
	}
	move := m.strategy.Decide(d)
	m.moves = append(m.moves, madeMove{trace.TrimTaskNumber(d.Task(move.Option).Name()), move.Fault, move.Event})
	return move
}

// sameMoves is a Strategy that makes the same moves in a world with more processes. The others run while the
// next move cannot be made, and at the end.
type sameMoves struct {
	*madeMoves
	next int
}

// Decide returns the next move, or one of another process, or else the default.
func (m *sameMoves) Decide(d *sim.Decision) sim.Move {
	if m.next == len(m.moves) {
		return sim.Move{}
	}
	next := m.moves[m.next]
	if next.event != "" && slices.Contains(d.Events(), next.event) {
		m.next++
		return sim.Move{Event: next.event}
	}
	other := -1
	for i := range d.Len() {
		switch t := d.Task(i); {
		case next.event == "" && trace.TrimTaskNumber(t.Name()) == next.task:
			m.next++
			if action, calls := t.Pending(); !calls || !next.fault.Applies(action) {
				next.fault = sim.Fault{}
			}
			return sim.Move{Option: i, Fault: next.fault}
		case other < 0 && !m.processes[t.Process()]:
			other = i
		}
	}
	if other < 0 { // the two worlds differ
		m.next, other = len(m.moves), 0
	}
	return sim.Move{Option: other}
}

// isSound reports whether a failure in a smaller world is one of the whole world.
func isSound(failure error) bool {
	var violation *invariant.Violation
	var panicked *scenario.Panic
	return errors.As(failure, &violation) && !violation.AtRest || errors.As(failure, &panicked)
}

// isAtRest reports whether a failure violates a rule at rest.
func isAtRest(failure error) bool {
	var violation *invariant.Violation
	return errors.As(failure, &violation) && violation.AtRest
}

// smallerWorld describes the world of a failure that was found in the smaller one.
func smallerWorld(components []string) string {
	if len(components) == 0 {
		return "a world without components of the control plane"
	}
	return "the world of the components " + strings.Join(components, ", ")
}
