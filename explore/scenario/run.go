package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// StepsMax is the default bound on the steps of a run after its set-up: many times the length of a
// run in a small world.
const StepsMax = 20_000

// Options configures Run.
type Options struct {
	Strategy sim.Strategy // nil: the scenario's schedule
	StepsMax int          // 0: StepsMax
	Pool     *sim.Pool    // see sim.SteppedConfig
	// Watch is called with the world after the set-up, before the first step of the scenario. nil:
	// not called.
	Watch func(c *cluster.Cluster)
	// Callers records the call stacks of requests and driver calls, for Result.Source. It takes time.
	Callers bool
}

// A Result is the result of a run.
type Result struct {
	// Failure is an *invariant.Violation, an *Incomplete, a *Livelock, a *Panic, a
	// *DivergentOutcome, or the error of a user; nil if the run passed.
	Failure  error
	Mismatch string // why the scenario's schedule could not be replayed, if Options.Strategy is nil; "": it was
	Steps    int    // after the set-up
	Choices  int    // steps at which more than one task could run
	Trace    *trace.Log
	SetupEnd int     // the step of the trace at which the set-up ended
	Outcome  Outcome // final state; nil if the run failed or was stopped
	Stopped  bool
	// Source is where the user's code made the request that violated the rule, as "FILE:LINE",
	// or the user's act and its line in the text. For the error of a user it is the user's last
	// request. "": it is unknown, as without Options.Callers, or a part of this module.
	Source string

	acts       []actStart // those that began
	components []string   // of the world
}

// An Incomplete is the failure of a world at rest in which something is still pending.
type Incomplete struct {
	Pending []invariant.Pending
	Waiting []string // users that wait for a condition that does not hold
}

// Error returns all that is pending.
func (u *Incomplete) Error() string {
	var words []string
	for _, o := range u.Pending {
		words = append(words, o.String())
	}
	words = append(words, u.Waiting...)
	return "at rest, but pending: " + strings.Join(words, "; ")
}

// A Panic is the failure of a world in which a process panicked.
type Panic struct {
	Value any
	Task  string // the task that panicked
	Stack string
}

// Error returns the task and the value of the panic.
func (p *Panic) Error() string { return fmt.Sprintf("%s panicked: %v", p.Task, p.Value) }

// RuleID returns the ID of the rule that a failure violates: the rule of a violation, the rule of
// the first pending object, "L7" for a user that waits, a livelock or a panic, "end" for a
// divergent outcome, and "user" for the error of a user.
func RuleID(failure error) string {
	var violation *invariant.Violation
	var unfinished *Incomplete
	var livelock *Livelock
	var panicked *Panic
	var ends *DivergentOutcome
	switch {
	case failure == nil:
		return ""
	case errors.As(failure, &violation):
		return violation.Rule.ID
	case errors.As(failure, &unfinished) && len(unfinished.Pending) > 0:
		return unfinished.Pending[0].Rule.ID
	case errors.As(failure, &unfinished), errors.As(failure, &livelock), errors.As(failure, &panicked):
		return "L7"
	case errors.As(failure, &ends):
		return "end"
	default:
		return "user"
	}
}

// Run runs the scenario once. The error is for an invalid scenario, such as one with an unknown
// component.
func (s *Scenario) Run(ctx context.Context, o Options) (result *Result, err error) {
	plan := sim.NewReplayStrategy(s.Schedule)
	strategy := o.Strategy
	if strategy == nil {
		strategy = plan
	}
	w, err := s.setUp(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.cluster.Close()) }()
	w.host.SetStrategy(strategy)
	w.execute(ctx)
	if err := w.host.Err(); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err) // what a stray goroutine does differs between runs
	}
	if o.Callers {
		w.result.Source = w.source(s)
	}
	if err := ctx.Err(); err != nil && errors.Is(w.result.Failure, err) {
		return nil, err // an interrupted run has no result
	}
	if o.Strategy == nil {
		w.result.Mismatch = plan.Mismatch()
	}
	return w.result, nil
}

// A world is the world of a scenario during a run.
type world struct {
	cluster       *cluster.Cluster
	host          *sim.Stepped
	checker       *invariant.Checker
	bound         int // maximum number of steps of the host
	setupSteps    int // steps in the set-up
	setupChoices  int // choices in the set-up
	result        *Result
	userFailure   error
	failedUser    string // the user of userFailure
	cycle         cycleDetector
	degradedSince time.Time // when something went down; zero: nothing is down
}

// repairDelay is how long something stays down before it is repaired, unless an event repairs it.
// It is longer than the attach/detach controller waits before it force-detaches.
const repairDelay = 10 * time.Minute

// setUp creates and starts the world.
func (s *Scenario) setUp(ctx context.Context, o Options) (*world, error) {
	rules, err := s.rules()
	if err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	if err := s.checkDrivers(); err != nil {
		return nil, err
	}
	c, err := cluster.New(s.World(sim.SteppedConfig{Pool: o.Pool, Callers: o.Callers}))
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	c.Trace().KeepReads = len(s.Extra) > 0
	w := &world{cluster: c, host: c.Host().(*sim.Stepped)}
	w.checker = invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: w.host.Now, Devices: c.DeviceState(), Reuse: w.host.Reuse()}, rules...)
	if err := c.Start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("scenario %s: set-up: %w", s.Name, err), c.Close())
	}
	setUp := len(s.Users) > 0 || len(s.Drawn) == 0
	for setUp && w.host.Busy() && w.host.Steps() < StepsMax {
		if !w.host.Step() {
			break
		}
	}
	w.result = &Result{Trace: c.Trace(), SetupEnd: c.Trace().Steps(), components: c.Components()}
	for _, u := range s.Users {
		w.startUser(u)
	}
	if o.Watch != nil {
		o.Watch(c)
	}
	w.setupSteps, w.setupChoices = w.host.Steps(), w.host.Choices()
	w.bound = w.setupSteps + cmp.Or(o.StepsMax, StepsMax)
	w.result.SetupEnd = c.Trace().Steps()
	return w, nil
}

// startUser starts the task of a user.
func (w *world) startUser(u User) {
	component := w.host.Process(u.Name)
	component.User("", func(ctx context.Context) {
		for i, act := range u.Acts {
			w.result.acts = append(w.result.acts, actStart{u.Name, i, w.cluster.Trace().Steps()})
			if err := act.Do(ctx, w.cluster, component); err != nil {
				w.failedUser, w.userFailure = u.Name, fmt.Errorf("user %s: %s: %w", u.Name, act, err)
				return
			}
		}
		if u.Script == nil {
			return
		}
		if err := u.Script(ctx, w.cluster); err != nil {
			w.failedUser, w.userFailure = u.Name, fmt.Errorf("user %s: %w", u.Name, err)
		}
	})
}

// execute runs the world to its end and checks the rules.
func (w *world) execute(ctx context.Context) {
	r := w.result
	r.Failure = w.recoverPanic(func() error { return w.runToRest(ctx) })
	r.Steps, r.Choices = w.host.Steps()-w.setupSteps, w.host.Choices()-w.setupChoices
	r.Stopped = w.host.Stopped()
	if r.Failure != nil || r.Stopped {
		return
	}
	r.Outcome = outcomeOf(w.cluster)
	r.Failure = w.recoverPanic(func() error { return w.resync(ctx) })
}

// recoverPanic turns the panic of a process into a failure.
func (w *world) recoverPanic(do func() error) (failure error) {
	defer func() {
		if p := recover(); p != nil {
			task, stack := w.host.PanickedTask()
			failure = &Panic{Value: p, Task: task, Stack: cmp.Or(stack, string(debug.Stack()))}
		}
	}()
	return do()
}

// resyncTime is how long a world at rest is left alone. It is longer than any resync period.
const resyncTime = 10 * time.Minute

// resync lets time pass in a world at rest, in the default order. No controller may find anything
// to do.
func (w *world) resync(ctx context.Context) error {
	w.host.SetStrategy(sim.NewReplayStrategy(nil))
	w.bound += StepsMax
	err := w.checker.Resync(func() error {
		w.host.SetTime(w.host.Now().Add(resyncTime))
		return w.run(ctx)
	})
	if v := w.checker.FirstViolation(); v != nil {
		return v
	}
	return err
}

// runToRest runs the world until it is at rest or a failure occurs.
func (w *world) runToRest(ctx context.Context) error {
	for {
		if failure := w.run(ctx); failure != nil || w.host.Stopped() {
			return failure
		}
		if !w.cluster.Repair() { // restart what is down, so that the world can make progress
			break
		}
	}
	pending := w.checker.CheckAtRest()
	if v := w.checker.FirstViolation(); v != nil {
		return v
	}
	if waiting := w.host.Waiting(); len(pending) > 0 || len(waiting) > 0 {
		return &Incomplete{Pending: pending, Waiting: waiting}
	}
	return nil
}

// repairOverdue repairs what has been down for repairDelay.
func (w *world) repairOverdue() {
	switch now := w.host.Now(); {
	case !w.cluster.Degraded():
		w.degradedSince = time.Time{}
	case w.degradedSince.IsZero():
		w.degradedSince = now
	case now.Sub(w.degradedSince) > repairDelay:
		w.cluster.Repair()
	}
}

// attachedInOnePlace returns the obligations of L5 in a world that does not come to rest.
func (w *world) attachedInOnePlace() []invariant.Pending {
	return slices.DeleteFunc(w.checker.CheckAtRest(), func(p invariant.Pending) bool { return p.Rule.ID != "L5" })
}

// run runs the world until it is quiescent.
func (w *world) run(ctx context.Context) error {
	half := w.bound - (w.bound-w.setupSteps)/2
	for w.host.Step() {
		if v := w.checker.FirstViolation(); v != nil {
			return v
		}
		if w.userFailure != nil {
			return w.userFailure
		}
		if panics := w.host.Panics(); len(panics) > 0 {
			return &Panic{Value: panics[0].Value, Task: panics[0].Task, Stack: panics[0].Stack}
		}
		w.repairOverdue()
		if steps := w.host.Steps(); steps > half {
			if w.cluster.Repair() { // the outage may keep the world from coming to rest
				w.bound += w.bound - half
				half = steps + (w.bound-steps)/2
				continue
			}
			l := w.cycle.check(w.cluster, steps)
			if l == nil && steps >= w.bound {
				l = &Livelock{Steps: steps - w.setupSteps}
			}
			if l != nil {
				l.Attached = w.attachedInOnePlace()
				return l
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return w.userFailure
}
