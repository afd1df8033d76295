package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// Strategy names a way to search.
type Strategy string

// The ways to search.
const (
	Portfolio  Strategy = "portfolio"  // holds, restarts and faults one by one, then pct, pos and random
	Holds      Strategy = "holds"      // every schedule with at most Depth holds
	Restarts   Strategy = "restarts"   // every schedule in which one part crashes once, at one of its calls
	Faults     Strategy = "faults"     // every schedule in which one call goes wrong, or one event befalls the world
	PCT        Strategy = "pct"        // drawn; see sim.PCT
	POS        Strategy = "pos"        // drawn; see sim.POS
	Random     Strategy = "random"     // drawn evenly
	Exhaustive Strategy = "exhaustive" // every order of events, or every one with at most Depth deviations
)

// Strategies are all ways to search.
var Strategies = []Strategy{Portfolio, Holds, Restarts, Faults, PCT, POS, Random, Exhaustive}

// SchedulesMax is how many schedules are run at most where nothing else is said.
const SchedulesMax = 10_000

// Config says how to search. The zero value is a portfolio with one hold.
type Config struct {
	Strategy Strategy       // "": Portfolio
	Depth    int            // Holds, Portfolio: how many holds, 0: 1. PCT: its depth, 0: 3. Exhaustive: how many deviations, 0: any number
	Count    int            // how many schedules at most; 0: Count
	Seed     uint64         // of what is drawn: schedules have the seeds from this one on
	Faults   sim.FaultSpecs // what goes wrong beside; nil: what the scenario says
	NoFaults bool           // nothing goes wrong, whatever the scenario says
	Restarts bool           // Portfolio: parts crash, too

	// Of several searches that share the work, this is number Shard (from 0) of Shards. 0: it is the only one.
	Shard, Shards int

	// Rule is the number of the rule to be broken; other failures are passed over. "": any.
	Rule string
	// KeepGoing goes on after a failure, to the end of the search: failures are counted by rule.
	KeepGoing bool
	// Progress is told after each schedule. nil: nobody.
	Progress func(Report)
	// States has states be counted, which takes time.
	States bool
	// Watch is told of each run before it begins. nil: nobody.
	Watch func(c *cluster.Cluster)
}

// Report is what a search has come to.
type Report struct {
	Schedules int        // run so far
	Steps     int        // in all of them
	States    int        // different ones met, if they are counted
	Complete  string     // what was searched completely, in words; "": nothing was
	Failure   *Failure   // the first; nil: none was found
	Failures  []*Failure // the first of each rule; more than one only with Config.KeepGoing
}

// Failure is a schedule under which a scenario goes wrong.
type Failure struct {
	Scenario   *scenario.Scenario // with the schedule, and the number of the rule that is broken
	Result     *scenario.Result   // of the last run
	Schedules  int                // how many were run until it was found
	ShrinkRuns int                // how many more were run to shorten it
	Times      int                // how many schedules broke the rule; more than 1 only with Config.KeepGoing
}

// Error says which rule is broken, and how.
func (f *Failure) Error() string { return f.Result.Failure.Error() }

// ErrNotDeterministic is matched by the error for a schedule that does not give the same trace twice.
var ErrNotDeterministic = errors.New("the same schedule gave two different traces")

// errEnough ends a search.
var errEnough = errors.New("enough")

// Search runs schedules of a scenario until one fails, all have been run, or as many as were asked for. The error is for what
// is wrong with the scenario or the config, a world that is not deterministic, and a context that ended; the report is
// good also then.
func Search(ctx context.Context, s *scenario.Scenario, cfg Config) (Report, error) {
	e, err := newSearch(ctx, s, cfg)
	if err != nil {
		return Report{}, err
	}
	defer e.pool.Close()
	err = e.search(e.cfg.Strategy)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return e.report, err
}

// search is a search under way.
type search struct {
	ctx          context.Context //nolint:containedctx // of the one call that it serves
	scenario     *scenario.Scenario
	cfg          Config
	faultSpecs   sim.FaultSpecs
	report       Report
	defaultRun   *scenario.Result // the ordinary course
	calls        []call           // and the calls in it
	choiceSteps  []int            // and the steps of it at which there was a choice
	considered   int              // schedules come by, of all shards
	states       *states          // nil: they are not counted
	pool         *sim.Pool        // of all runs
	badFaultSpec error            // one of the risks cannot come true
	shrinking    bool             // it is part of the shrinking of what another one found
}

func newSearch(ctx context.Context, s *scenario.Scenario, cfg Config) (*search, error) {
	cfg.Strategy = cmp.Or(cfg.Strategy, Portfolio)
	cfg.Count = cmp.Or(cfg.Count, SchedulesMax)
	cfg.Shards = max(1, cfg.Shards)
	switch {
	case !slices.Contains(Strategies, cfg.Strategy):
		return nil, fmt.Errorf("strategy %q: want one of %v", cfg.Strategy, Strategies)
	case cfg.Shard < 0 || cfg.Shard >= cfg.Shards:
		return nil, fmt.Errorf("shard %d of %d: the first is 0", cfg.Shard, cfg.Shards)
	case cfg.Depth < 0 || cfg.Count < 0:
		return nil, fmt.Errorf("depth %d, count %d: want no negative numbers", cfg.Depth, cfg.Count)
	}
	e := &search{ctx: ctx, scenario: s.WithSchedule(nil, ""), cfg: cfg, faultSpecs: cfg.Faults, pool: &sim.Pool{}}
	if e.faultSpecs == nil {
		e.faultSpecs = s.Faults
	}
	if cfg.NoFaults {
		e.faultSpecs = nil
	}
	if _, err := sim.NewFaultInjector(nil, 0, e.faultSpecs, 1, cluster.EventKinds...); err != nil {
		return nil, err
	}
	if cfg.States {
		e.states = newStates()
	}
	return e, nil
}

// search runs the ordinary course, and then searches by a strategy.
func (e *search) search(strategy Strategy) error {
	if err := e.runDefault(); err != nil {
		return err
	}
	switch strategy {
	case Portfolio:
		return e.portfolio()
	case Holds:
		return e.holds(cmp.Or(e.cfg.Depth, 1))
	case Restarts:
		return e.restarts()
	case Faults:
		return e.faults()
	case Exhaustive:
		return e.exhaustive(e.cfg.Depth)
	default:
		return e.sample(strategy, e.cfg.Count)
	}
}

// portfolio goes from the simplest schedules to those that are drawn.
func (e *search) portfolio() error {
	var complete []string
	stage := func(search func() error) error {
		e.report.Complete = ""
		err := search()
		if e.report.Complete != "" {
			complete = append(complete, e.report.Complete)
		}
		return err
	}
	depth := cmp.Or(e.cfg.Depth, 1)
	stages := []func() error{func() error { return e.holds(1) }}
	if len(e.faultSpecs) > 0 {
		stages = append(stages, e.faults)
	}
	if e.cfg.Restarts {
		stages = append(stages, e.restarts)
	}
	if depth > 1 {
		stages = append(stages, func() error { return e.holdsFrom(2, depth) })
	}
	for _, s := range stages {
		if err := stage(s); err != nil {
			e.report.Complete = strings.Join(complete, "; ")
			return err
		}
	}
	e.report.Complete = strings.Join(complete, "; ")
	left := e.cfg.Count - e.report.Schedules
	for i, strategy := range []Strategy{PCT, POS, Random} {
		if err := e.sample(strategy, left/3+min(1, max(0, left%3-i))); err != nil {
			return err
		}
	}
	return nil
}

// isMine tells whether the next schedule is this shard's.
func (e *search) isMine() bool {
	e.considered++
	return (e.considered-1)%e.cfg.Shards == e.cfg.Shard
}

// run runs one schedule. It returns errEnough when the search is over.
func (e *search) run(strategy sim.Strategy) (*scenario.Result, error) {
	if e.states == nil {
		return e.runWithSetup(strategy, nil)
	}
	counting := &stateCounter{Strategy: strategy, states: e.states}
	r, err := e.runWithSetup(counting, counting.begin)
	e.report.States = e.states.count()
	return r, err
}

// runWithSetup runs one schedule, and says so when its world has been set up.
func (e *search) runWithSetup(strategy sim.Strategy, begin func(c *cluster.Cluster)) (*scenario.Result, error) {
	if e.report.Schedules >= e.cfg.Count {
		return nil, errEnough
	}
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	r, err := e.scenario.Run(e.ctx, scenario.Options{Strategy: strategy, Pool: e.pool, StepsMax: e.bound(), Watch: func(c *cluster.Cluster) {
		if e.defaultRun == nil {
			e.badFaultSpec = c.ValidateFaults(e.faultSpecs)
		}
		if begin != nil {
			begin(c)
		}
		if e.cfg.Watch != nil {
			e.cfg.Watch(c)
		}
	}})
	if err != nil {
		return nil, err
	}
	e.report.Schedules++
	e.report.Steps += r.Steps
	e.judge(r)
	if e.cfg.Progress != nil {
		e.cfg.Progress(e.report)
	}
	return r, nil
}

// bound is on the steps of a run: so many times those of the ordinary course that more must be a livelock. The ordinary course
// itself, which may be one, has the same bound each time it is run.
func (e *search) bound() int {
	if e.defaultRun == nil || e.defaultRun.Failure != nil {
		return scenario.StepsMax
	}
	return 1000 + 10*e.defaultRun.Steps
}

// judge compares a run that went well with the ordinary course.
func (e *search) judge(r *scenario.Result) {
	if r.Failure != nil || r.Stopped || e.defaultRun == nil || e.scenario.OutcomesDiffer {
		return
	}
	if !maps.Equal(e.defaultRun.Outcome, r.Outcome) {
		r.Failure = &scenario.DivergentOutcome{Default: e.defaultRun.Outcome, Actual: r.Outcome}
	}
}

// failed tells whether a run broke the rule that the search is for.
func (e *search) failed(r *scenario.Result) bool {
	return r.Failure != nil && (e.cfg.Rule == "" || e.cfg.Rule == scenario.RuleID(r.Failure))
}

// try runs a schedule, and ends the search if it fails.
func (e *search) try(schedule sim.Schedule) (*scenario.Result, *probe, error) {
	p := &probe{ReplayStrategy: sim.NewReplayStrategy(schedule)}
	r, err := e.run(p)
	if err == nil && e.failed(r) {
		err = e.found(p.Applied(), r)
	}
	return r, p, err
}

// runDefault runs the ordinary course, and notes its calls.
func (e *search) runDefault() error {
	p := &probe{ReplayStrategy: sim.NewReplayStrategy(nil), recordCalls: true}
	r, err := e.run(p)
	if err := cmp.Or(e.badFaultSpec, err); err != nil {
		return err
	}
	if e.failed(r) {
		// Under the same bound on steps, so that a livelock is seen where it was seen before; and without an ordinary
		// course there is nothing to leave.
		return cmp.Or(e.found(nil, r), errEnough)
	}
	e.defaultRun, e.calls, e.choiceSteps = r, p.calls, p.choiceSteps
	return nil
}
