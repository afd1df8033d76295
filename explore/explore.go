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
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Strategy is the name of a search strategy.
type Strategy string

// The search strategies.
const (
	Portfolio  Strategy = "portfolio"  // holds, faults and restarts one at a time, in turn with pos, walk and pct
	Holds      Strategy = "holds"      // every schedule with at most Depth holds
	Restarts   Strategy = "restarts"   // every schedule in which one process crashes once, at one of its calls
	Faults     Strategy = "faults"     // every schedule with one fault or one event
	PCT        Strategy = "pct"        // randomized; see sim.NewPCT
	POS        Strategy = "pos"        // randomized; see sim.NewPOS
	Walk       Strategy = "walk"       // randomized, uniform among the orders of independent steps
	Random     Strategy = "random"     // randomized, uniform among the tasks
	Exhaustive Strategy = "exhaustive" // every order of events, or every one with at most Depth deviations
)

// Strategies lists all search strategies.
var Strategies = []Strategy{Portfolio, Holds, Restarts, Faults, PCT, POS, Walk, Random, Exhaustive}

// SchedulesMax is the default bound on the number of schedules.
const SchedulesMax = 10_000

// Config configures a search. The zero value is a portfolio with one hold.
type Config struct {
	Strategy Strategy       // "": Portfolio
	Depth    int            // Holds, Portfolio: number of holds, 0: 1. PCT: its depth, 0: 3. Exhaustive: number of deviations, 0: any
	Count    int            // maximum number of schedules; 0: SchedulesMax
	Seed     uint64         // first seed of randomized schedules
	Faults   sim.FaultSpecs // injected faults; nil: those of the scenario
	NoFaults bool           // disables fault injection, overriding the scenario
	Restarts bool           // Portfolio: processes crash, too

	// Shard is the index (from 0) of this search among Shards searches that share the work. Shards 0 means one.
	Shard, Shards int

	// Jobs is the number of goroutines that share the work; 0: 1. The report is the same for any number:
	// the first failure, schedules and steps. Only in an exhaustive search each job visits states of its
	// own, so the report is the same for the same number. States is the sum of the jobs: a state that
	// several of them visit counts several times. Scenarios with parts in Go, which the jobs would
	// share, are refused; see scenario.Scenario.OnlyInGo. Calls of Progress and Watch do not overlap.
	Jobs int

	// ShrinkRuns is the maximum number of runs that shrink a failure, which make at most 200 times as
	// many steps. 0: 1000.
	ShrinkRuns int

	// Rule is the ID of the rule to violate; other failures are ignored. "": any.
	Rule string
	// KeepGoing continues after a failure, to the end of the search. Failures are counted by rule.
	KeepGoing bool
	// Progress is called after each schedule. nil: not called.
	Progress func(Report)
	// UntilDry ends the search when so many schedules in a row had no new history. 0: it goes on.
	UntilDry int
	// States enables counting of states, which takes time.
	States bool
	// Coverage makes the report say what the schedules of the whole world exercised, which takes time. It
	// needs one job.
	Coverage bool
	// Corpus is a directory of schedules. A portfolio begins with them, adds those that are the first to
	// exercise a call with a stale cache or a fault, and varies them in turn with its other schedules,
	// those with rare circumstances first. The next search goes on from there. Shards may share it. The
	// report depends on its contents. It needs one job, and States must not be set. "": none.
	Corpus string
	// Watch is called with the world of each run before it begins, also of the runs that confirm and
	// shrink a failure. nil: not called.
	Watch func(c *cluster.Cluster)
}

// A Report is the result of a search.
type Report struct {
	Schedules int // number of schedules run
	Steps     int // in all of them
	States    int // different states visited, if they are counted
	Left      int // Exhaustive: number of alternatives that were known and not run when the search ended
	// Histories is the number of different histories: orders of events that look different to the rules. A complete
	// exhaustive search without Depth counts those of all orders, also of those that it left out; if there
	// are too many to count, Complete says that there are at least so many.
	Histories int
	// NewHistories is the number of the last 100 schedules whose history was new.
	NewHistories int
	Conditions   []trace.Condition // of trace.Sometimes in all schedules, and those that the scenario names; by name
	Coverage     []Coverage        // what the schedules exercised, by component and call, if Config.Coverage
	Complete     string            // what was searched completely, in words; "": nothing
	Dry          bool              // it ended by Config.UntilDry
	Failure      *Failure          // the first; nil: none was found
	Failures     []*Failure        // the first of each rule; more than one only with Config.KeepGoing
}

// A Failure is a schedule under which a scenario fails.
type Failure struct {
	Scenario   *scenario.Scenario // with the schedule and the ID of the violated rule
	Result     *scenario.Result   // of the last run
	Schedules  int                // number of schedules run until it was found
	ShrinkRuns int                // additional runs to shrink it
	// ShrinkStopped says that shrinking reached Config.ShrinkRuns. A shorter schedule may exist.
	ShrinkStopped bool
	Times         int    // number of schedules that violated the rule; more than 1 only with Config.KeepGoing
	World         string // the smaller world in which it was found, in words; "": that of the scenario
	Picture       string // path of the picture that Save has written; "": none
}

// Error returns the violated rule and the details.
func (f *Failure) Error() string { return f.Result.Failure.Error() }

// Found returns in words how the failure was found and shrunk, and which smaller world to try:
// "found in schedule 8 of the search; a smaller world to try: nodes: 1".
func (f *Failure) Found() string {
	words := fmt.Sprintf("found in schedule %d of the search", f.Schedules)
	if f.World != "" {
		words += ", in " + f.World
	}
	if f.ShrinkRuns > 0 {
		words += fmt.Sprintf(", shrunk in %s", plural(f.ShrinkRuns, "more run"))
	}
	if f.ShrinkStopped {
		words += " up to the bound (a shorter schedule may exist)"
	}
	if smaller := f.Result.Smaller(f.Scenario); len(smaller) > 0 {
		words += "; a smaller world to try: " + strings.Join(smaller, "; ")
	}
	return words
}

// ErrNotDeterministic is matched by the error for a schedule that does not produce the same trace
// twice.
var ErrNotDeterministic = errors.New("the same schedule gave two different traces")

// errEnough ends a search.
var errEnough = errors.New("enough")

// Search runs schedules of a scenario until one fails, all have been run, or the bound is reached.
// If the scenario selects no components, at most a quarter of the schedules are those of a smaller
// world, which has the components that act in the default order. The whole world is searched
// afterwards. The scenario of a failure that is found in the smaller world selects its components,
// unless it violates a rule at rest: then its schedule is one of the whole world.
// The error is for an invalid scenario or config, with an empty report, a world that is not
// deterministic, and a cancelled context. The report is valid even with an error.
func Search(ctx context.Context, s *scenario.Scenario, cfg Config) (Report, error) {
	if cfg.Jobs > 1 {
		return searchJobs(ctx, s, cfg)
	}
	e, err := newSearch(ctx, s, cfg)
	if err != nil {
		return Report{}, err
	}
	return e.searchAll()
}

// searchAll searches and returns the result.
func (e *search) searchAll() (Report, error) {
	defer e.pool.Close()
	err := e.search(e.cfg.Strategy)
	if e.badFaultSpec != nil {
		return Report{}, err // nothing has been searched
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if e.cfg.Coverage {
		e.report.Coverage = e.coverage.list()
	}
	if e.job == nil && err == nil {
		e.report.countHistories(e.graph)
	}
	return e.report, err
}

// A search is a search in progress.
type search struct {
	ctx          context.Context //nolint:containedctx // of the one call that it serves
	scenario     *scenario.Scenario
	cfg          Config
	faultSpecs   sim.FaultSpecs
	report       Report
	defaultRun   *scenario.Result // the run in the default order
	calls        []call           // the calls in it
	choiceSteps  []int            // its steps with more than one alternative
	taskSteps    map[string]int   // the number of its steps by task
	between      func() error     // called after each schedule of a systematic search, also of another shard; nil: nothing
	considered   int              // schedules considered, of all shards
	states       *states          // nil: not counted
	histories    *histories
	history      *history      // of the run
	graph        *historyGraph // nil: histories of orders that are not run are not counted
	coverage     *coverage     // nil: not counted
	corpus       *corpus       // nil: none
	pool         *sim.Pool     // shared by all runs
	badFaultSpec error         // one of the fault specs can never apply
	smaller      bool          // of the smaller world; see searchSmaller
	whole        *search       // nil: this world is the whole one
	earlier      int           // schedules that were run in the whole world before
	shrinking    bool          // part of the shrinking of another search's result
	stepsMax     int           // bound on the steps of all runs; 0: none
	callers      bool          // runUncounted records who made the calls
	job          *job          // nil: the only one
	elsewhere    int           // schedules that other jobs run
}

func newSearch(ctx context.Context, s *scenario.Scenario, cfg Config) (*search, error) {
	cfg.Strategy = cmp.Or(cfg.Strategy, Portfolio)
	cfg.Count = cmp.Or(cfg.Count, SchedulesMax)
	cfg.ShrinkRuns = cmp.Or(cfg.ShrinkRuns, shrinkRuns)
	cfg.Shards = max(1, cfg.Shards)
	switch {
	case !slices.Contains(Strategies, cfg.Strategy):
		return nil, fmt.Errorf("strategy %q: want one of %s", cfg.Strategy, strings.Trim(strings.ReplaceAll(fmt.Sprint(Strategies), " ", ", "), "[]"))
	case cfg.Shard < 0 || cfg.Shard >= cfg.Shards:
		return nil, fmt.Errorf("shard %d of %d: the first is 0", cfg.Shard, cfg.Shards)
	case cfg.Depth < 0 || cfg.Count < 0 || cfg.ShrinkRuns < 0 || cfg.UntilDry < 0 || cfg.Jobs < 0:
		return nil, fmt.Errorf("depth %d, count %d, shrink runs %d, until dry %d, jobs %d: want no negative numbers",
			cfg.Depth, cfg.Count, cfg.ShrinkRuns, cfg.UntilDry, cfg.Jobs)
	}
	if cfg.Corpus != "" && cfg.Strategy != Portfolio {
		return nil, fmt.Errorf("corpus %s with strategy %s: only a portfolio uses one", cfg.Corpus, cfg.Strategy)
	}
	if cfg.Corpus != "" && cfg.States {
		return nil, fmt.Errorf("corpus %s while states are counted: want one of them", cfg.Corpus)
	}
	if err := validateRule(cfg.Rule, s.OwnRules); err != nil {
		return nil, err
	}
	e := &search{ctx: ctx, scenario: s.WithSchedule(nil, ""), cfg: cfg, faultSpecs: cfg.Faults, pool: &sim.Pool{Memory: cfg.Watch == nil}, histories: newHistories()}
	if e.faultSpecs == nil {
		e.faultSpecs = s.Faults
	}
	if cfg.NoFaults {
		e.faultSpecs = nil
	}
	if _, err := sim.NewFaultInjector(nil, 0, e.faultSpecs, 1, cluster.EventKinds...); err != nil {
		return nil, err
	}
	e.report.AddConditions(named(s.Sometimes))
	if cfg.States {
		e.states = newStates()
	}
	if cfg.Corpus != "" {
		e.corpus = newCorpus(cfg.Corpus, s.Name, cfg.Seed)
	}
	if cfg.Coverage || cfg.Corpus != "" {
		e.coverage = newCoverage(e.faultSpecs, cfg.Restarts || cfg.Strategy == Restarts)
	}
	return e, nil
}

// validateRule returns an error for an ID that no failure of a scenario has.
func validateRule(id string, own []invariant.Rule) error {
	known := []string{"L7", "end", "user"} // see scenario.RuleID
	for _, rule := range append(invariant.Rules(), own...) {
		known = append(known, rule.ID)
	}
	if id == "" || slices.Contains(known, id) {
		return nil
	}
	slices.Sort(known)
	return fmt.Errorf("rule %q: want one of %s", id, strings.Join(slices.Compact(known), ", "))
}

// search runs the default order and then searches with a strategy.
func (e *search) search(strategy Strategy) error {
	if err := e.runDefault(); err != nil {
		return err
	}
	if err := e.searchSmaller(strategy); err != nil {
		return err
	}
	return e.searchWith(strategy)
}

// searchWith searches with a strategy when the default order has been run.
func (e *search) searchWith(strategy Strategy) error {
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

// isMine reports whether the next schedule belongs to this shard and job.
func (e *search) isMine() bool {
	e.considered++
	return (e.considered-1)%e.cfg.Shards == e.cfg.Shard && e.isOfJob((e.considered-1)/e.cfg.Shards)
}

// goOn is called after each schedule of a systematic search that was considered, whether or not this
// shard ran it: what is drawn in between is therefore the same for all shards.
func (e *search) goOn(err error) error {
	if err == nil && e.between != nil {
		err = e.between()
	}
	return err
}

// run runs one schedule. It returns errEnough at the bound.
func (e *search) run(strategy sim.Strategy) (*scenario.Result, error) {
	if e.states == nil {
		return e.runWithSetup(strategy, nil)
	}
	counting := &stateCounter{Strategy: strategy, states: e.states}
	r, err := e.runWithSetup(counting, counting.begin)
	e.report.States = e.states.count()
	return r, err
}

// runWithSetup runs one schedule and calls begin after the set-up of its world.
func (e *search) runWithSetup(strategy sim.Strategy, begin func(c *cluster.Cluster)) (*scenario.Result, error) {
	if e.counted() >= e.cfg.Count || e.stepsMax > 0 && e.report.Steps >= e.stepsMax || e.isAfterFailure() {
		return nil, errEnough
	}
	if e.cfg.UntilDry > 0 && e.histories.dry >= e.cfg.UntilDry {
		e.report.Dry = true
		return nil, errEnough
	}
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	var exercised *exercise
	var recording *sim.RecordingStrategy
	if e.corpus != nil {
		recording = &sim.RecordingStrategy{Strategy: strategy}
		strategy = recording
	}
	if e.coverage != nil {
		exercised, strategy = newExercise(strategy, e.coverage)
	}
	history := newHistory()
	e.history = history
	r, err := e.scenario.Run(e.ctx, scenario.Options{Strategy: strategy, Pool: e.pool, StepsMax: e.bound(), Watch: func(c *cluster.Cluster) {
		if e.defaultRun == nil {
			e.badFaultSpec = c.ValidateFaults(e.faultSpecs)
		}
		history.watch(c)
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
	if !r.Stopped {
		e.histories.add(history.sum())
	}
	e.report.Histories, e.report.NewHistories = e.histories.count(), e.histories.fresh
	conditions := r.Trace.Conditions()
	e.report.AddConditions(conditions)
	e.note(r, history.sum(), conditions)
	e.judge(r)
	if e.cfg.Progress != nil {
		e.cfg.Progress(e.report)
	}
	if e.corpus != nil && len(exercised.first) > 0 {
		if err := e.corpus.keep(e.scenario, recording.Schedule, exercised.first); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// bound returns the bound on the steps of a run: a multiple of the steps in the default order,
// beyond which the run must be a livelock. The run in the default order, which may itself be a
// livelock, always has the same bound.
func (e *search) bound() int {
	if e.defaultRun == nil || e.defaultRun.Failure != nil {
		return scenario.StepsMax
	}
	return 1000 + 10*e.defaultRun.Steps
}

// judge compares the final state of a passing run with that of the default order.
func (e *search) judge(r *scenario.Result) {
	if r.Failure != nil || r.Stopped || e.defaultRun == nil || e.scenario.OutcomesDiffer {
		return
	}
	if !maps.Equal(e.defaultRun.Outcome, r.Outcome) {
		r.Failure = &scenario.DivergentOutcome{Default: e.defaultRun.Outcome, Actual: r.Outcome}
	}
}

// failed reports whether a run violated the rule that the search is for.
func (e *search) failed(r *scenario.Result) bool {
	return r.Failure != nil && (e.cfg.Rule == "" || e.cfg.Rule == scenario.RuleID(r.Failure)) &&
		(e.whole == nil || isSound(r.Failure) || isAtRest(r.Failure) && e.defaultRun != nil && !e.shrinking)
}

// try runs a schedule and ends the search if it fails.
func (e *search) try(schedule sim.Schedule) (*scenario.Result, *probe, error) {
	p := &probe{ReplayStrategy: sim.NewReplayStrategy(schedule)}
	r, err := e.run(p)
	if err == nil && e.failed(r) {
		err = e.found(p.Applied(), r)
	}
	return r, p, err
}

// runDefault runs the default order and records its calls.
func (e *search) runDefault() error {
	p := &probe{ReplayStrategy: sim.NewReplayStrategy(nil), recordCalls: true, taskSteps: map[string]int{}}
	r, err := e.run(p)
	if err := cmp.Or(e.badFaultSpec, err); err != nil {
		return err
	}
	if e.failed(r) {
		// The bound on steps stays the same, so that a livelock is detected at the same step. The search
		// ends: there is no default run to deviate from.
		return cmp.Or(e.found(nil, r), errEnough)
	}
	if r.Steps == 0 {
		return fmt.Errorf("scenario %s: nothing happens after the set-up: let a user act, by Acts or Script", e.scenario.Name)
	}
	e.defaultRun, e.calls, e.choiceSteps, e.taskSteps = r, p.calls, p.choiceSteps, p.taskSteps
	return nil
}
