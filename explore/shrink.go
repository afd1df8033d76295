package explore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// The default bound on the number of runs that shrink a schedule, and the number of steps that is
// allowed for each: together some seconds in a world of this module's components. The removal of
// deviations may use up half of them.
const (
	shrinkRuns     = 1000
	shrinkRunSteps = 200
)

// found handles a failing schedule: it verifies that the schedule fails again in the same way,
// shrinks it and ends the search. With Config.KeepGoing the search goes on, and further schedules
// that violate the same rule are only counted.
func (e *search) found(schedule sim.Schedule, r *scenario.Result) error {
	if e.whole != nil && !isSound(r.Failure) {
		return e.tryWhole(schedule)
	}
	rule := scenario.RuleID(r.Failure)
	if e.shrinking {
		e.report.Failure = &Failure{Scenario: e.scenario.WithSchedule(schedule, rule), Result: r}
		return errEnough
	}
	for _, f := range e.report.Failures {
		if f.Scenario.Violates == rule {
			f.Times++
			return nil
		}
	}
	if !e.isFirstFailure() {
		return errEnough
	}
	again, err := e.confirm(schedule, r)
	if err != nil {
		return err
	}
	k := &shrinker{search: e, rule: rule, best: schedule, result: again}
	if err := k.shrink(); err != nil {
		return err
	}
	if k.result != again { // the shrunk one
		if k.result, err = e.confirm(k.best, k.result); err != nil {
			return err
		}
	}
	f := &Failure{
		Scenario: e.scenario.WithSchedule(k.best, rule), Result: k.result,
		Schedules: e.number(), ShrinkRuns: k.runs, ShrinkStopped: k.stopped, Times: 1,
	}
	if e.whole != nil {
		f.World = smallerWorld(e.scenario.Components)
	}
	e.noteFailure(f)
	e.report.Failures = append(e.report.Failures, f)
	if e.report.Failure == nil {
		e.report.Failure = f
	}
	if e.cfg.KeepGoing {
		return nil
	}
	return errEnough
}

// confirm runs a schedule again, which must produce the same trace as before, and records who made
// the calls.
func (e *search) confirm(schedule sim.Schedule, r *scenario.Result) (*scenario.Result, error) {
	e.callers = true
	defer func() { e.callers = false }()
	again, err := e.runUncounted(sim.NewReplayStrategy(schedule))
	if err != nil {
		return nil, err
	}
	if err := same(r, again); err != nil {
		return nil, fmt.Errorf("scenario %s under %q: %w", e.scenario.Name, schedule, err)
	}
	return again, nil
}

// same compares two runs of one schedule.
func same(a, b *scenario.Result) error {
	was, is := strings.Split(a.Trace.Text(), "\n"), strings.Split(b.Trace.Text(), "\n")
	for i := range max(len(was), len(is)) {
		one, other := "(nothing)", "(nothing)"
		if i < len(was) {
			one = was[i]
		}
		if i < len(is) {
			other = is[i]
		}
		if one != other {
			return fmt.Errorf("%w: first\n  %s\nthen\n  %s", ErrNotDeterministic, one, other)
		}
	}
	return nil
}

// A shrinker shrinks a schedule that violates a rule.
type shrinker struct {
	*search
	rule   string
	best   sim.Schedule
	result *scenario.Result
	runs   int
	steps  int // of the runs

	stopped bool // at a bound
}

// shrink removes as many deviations as possible: first all picks, then half of the deviations, a
// quarter, and so on down to single ones. If more than one is left, it tries whether fewer holds suffice.
func (k *shrinker) shrink() error {
	var mishaps sim.Schedule
	for _, d := range k.best {
		if d.What != sim.DeviationPick {
			mishaps = append(mishaps, d)
		}
	}
	if len(mishaps) < len(k.best) {
		if _, err := k.fails(mishaps); err != nil {
			return err
		}
	}
	for size := len(k.best) / 2; size >= 1; {
		shorter, err := k.without(size)
		switch {
		case err != nil:
			return err
		case shorter && size > len(k.best):
			size = len(k.best)
		case !shorter:
			size /= 2
		}
	}
	if len(k.best) > 1 {
		return k.shrinkToHolds()
	}
	return nil
}

// without tries to remove so many deviations in a row, and reports whether it could.
func (k *shrinker) without(size int) (bool, error) {
	for from := len(k.best) - size; from >= 0; from -= size { // the last ones matter least
		shorter := append(append(sim.Schedule(nil), k.best[:from]...), k.best[from+size:]...)
		fails, err := k.fails(shorter)
		if err != nil {
			return false, err
		}
		if fails {
			return true, nil
		}
	}
	return false, nil
}

// fails runs a schedule and reports whether it violates the rule. If so, the schedule becomes the
// best one.
func (k *shrinker) fails(schedule sim.Schedule) (bool, error) {
	if most := (k.cfg.ShrinkRuns + 1) / 2; k.runs >= most || k.steps >= most*shrinkRunSteps {
		k.stopped = true
		return false, nil
	}
	k.runs++
	plan := sim.NewReplayStrategy(schedule)
	r, err := k.runUncounted(plan)
	if r != nil {
		k.steps += r.Steps
	}
	if err != nil || r.Failure == nil || scenario.RuleID(r.Failure) != k.rule || k.whole != nil && !isSound(r.Failure) {
		return false, err
	}
	k.best, k.result = plan.Applied(), r
	return true, nil
}

// fewHolds runs every schedule with fewer holds than deviations: with one, however long, and then with
// two.
func (e *search) fewHolds(deviations int) error {
	stages := []func() error{func() error { return e.holds(1) }, e.longHolds}
	if deviations > 2 {
		stages = append(stages, func() error { return e.holdsFrom(2, 2) })
	}
	for _, stage := range stages {
		if err := stage(); err != nil {
			return err
		}
	}
	return nil
}

// shrinkToHolds looks for a schedule of one or two holds that violates the rule.
func (k *shrinker) shrinkToHolds() error {
	for _, d := range k.best {
		if d.What != sim.DeviationPick && d.What != sim.DeviationHold && d.What != sim.DeviationHoldUntilIdle {
			return nil // holds alone do not suffice
		}
	}
	e := *k.search
	e.shrinking, e.report, e.states, e.histories, e.cfg.KeepGoing = true, Report{}, nil, newHistories(), false
	e.job, e.elsewhere, e.earlier, e.coverage, e.corpus = nil, 0, 0, nil, nil
	e.cfg.Rule, e.cfg.Shard, e.cfg.Shards, e.cfg.Progress, e.cfg.Count = k.rule, 0, 1, nil, k.cfg.ShrinkRuns-k.runs
	e.cfg.UntilDry, e.between = 0, nil
	e.stepsMax = k.cfg.ShrinkRuns*shrinkRunSteps - k.steps
	if e.cfg.Count <= 0 || e.stepsMax <= 0 {
		k.stopped = true
		return nil
	}
	err := e.fewHolds(len(k.best))
	k.runs += e.report.Schedules
	f := e.report.Failure
	if f != nil {
		k.best, k.result, k.stopped = f.Scenario.Schedule, f.Result, false
	}
	if errors.Is(err, errEnough) {
		k.stopped = f == nil
		return nil
	}
	return err
}
