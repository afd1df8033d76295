package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// StepsMax is the bound on the steps of a run after its set-up, where nothing else is said: many times as many as a small
// world takes.
const StepsMax = 20_000

// Options is what Run may be told.
type Options struct {
	Strategy sim.Strategy // nil: the scenario's schedule
	StepsMax int          // 0: StepsMax
	Pool     *sim.Pool    // see sim.SteppedConfig
	// Watch is called with the world when it has been set up, before anything of the scenario happens. nil: nobody.
	Watch func(c *cluster.Cluster)
}

// Result is how a run ended.
type Result struct {
	// Failure is what went wrong: an *invariant.Violation, an *Unfinished, a *Livelock, a *Panic, or a user's error. nil:
	// nothing.
	Failure  error
	Mismatch string // why the scenario's schedule could not be kept, if Options.Strategy is nil; "": it was
	Steps    int    // after the set-up
	Choices  int    // at how many of them there was more than one thing that could happen
	Trace    *trace.Log
	SetupEnd int     // the step of the trace at which the set-up was over
	Outcome  Outcome // how things stand at the end; the zero End of a run that failed or was stopped
	Stopped  bool
}

// Incomplete says that nothing is left to happen, but something is owed.
type Incomplete struct {
	Pending []invariant.Pending
	Waiting []string // users that wait for what does not come
}

// Error names all that is owed.
func (u *Incomplete) Error() string {
	var words []string
	for _, o := range u.Pending {
		words = append(words, o.String())
	}
	words = append(words, u.Waiting...)
	return "nothing is left to happen, but something is owed: " + strings.Join(words, "; ")
}

// Panic says that a part of the world panicked.
type Panic struct {
	Value any
	Task  string // who panicked
	Stack string
}

// Error says who panicked with what.
func (p *Panic) Error() string { return fmt.Sprintf("%s panics: %v", p.Task, p.Value) }

// RuleID is the number of the rule that a failure breaks: of a violation its own, of what is owed the first one's. A user's
// wait, a livelock and a panic break L7; a user's error "user".
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

// Run lives the scenario once. The error is for what is wrong with the scenario itself, such as a part that there is not.
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
	if o.Strategy == nil {
		w.result.Mismatch = plan.Mismatch()
	}
	return w.result, nil
}

// world is a scenario's world while it runs.
type world struct {
	cluster       *cluster.Cluster
	host          *sim.Stepped
	checker       *invariant.Checker
	bound         int // on the host's steps
	setupSteps    int // its steps in the set-up
	setupChoices  int // and how often something was chosen there
	result        *Result
	userFailure   error
	cycle         cycleDetector
	degradedSince time.Time // since when something is down; zero: nothing is
}

// repairDelay is how long something is down before it comes back, where nothing else brings it back: longer than it takes
// the attach/detach controller to give a node up.
const repairDelay = 10 * time.Minute

// setUp sets the world up.
func (s *Scenario) setUp(ctx context.Context, o Options) (*world, error) {
	rules, err := s.rules()
	if err != nil {
		return nil, err
	}
	c, err := cluster.New(s.World(sim.SteppedConfig{Pool: o.Pool}))
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	w := &world{cluster: c, host: c.Host().(*sim.Stepped)}
	w.checker = invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: w.host.Now, Devices: c.DeviceState()}, rules...)
	if err := c.Start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("scenario %s: set-up: %w", s.Name, err), c.Close())
	}
	for w.host.Busy() && w.host.Steps() < StepsMax {
		w.host.Step()
	}
	for _, u := range s.Users {
		w.startUser(u)
	}
	if o.Watch != nil {
		o.Watch(c)
	}
	w.setupSteps, w.setupChoices = w.host.Steps(), w.host.Choices()
	w.bound = w.setupSteps + cmp.Or(o.StepsMax, StepsMax)
	w.result = &Result{Trace: c.Trace(), SetupEnd: c.Trace().Steps()}
	return w, nil
}

// startUser lets a user act.
func (w *world) startUser(u User) {
	component := w.host.Process(u.Name)
	component.User("", func(ctx context.Context) {
		for _, act := range u.Acts {
			if err := act.Do(ctx, w.cluster, component); err != nil {
				w.userFailure = fmt.Errorf("user %s: %s: %w", u.Name, act, err)
				return
			}
		}
	})
}

// execute lets the world move to its end, and judges it.
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

// recoverPanic makes a panic of a part of the world a failure.
func (w *world) recoverPanic(do func() error) (failure error) {
	defer func() {
		if p := recover(); p != nil {
			actor, stack := w.host.PanickedTask()
			failure = &Panic{Value: p, Task: actor, Stack: cmp.Or(stack, string(debug.Stack()))}
		}
	}()
	return do()
}

// resyncTime is how long a world at rest is left alone: longer than any part waits before it looks at everything again.
const resyncTime = 10 * time.Minute

// resync lets time pass in a world at rest, in the ordinary course: nobody is to find anything to do.
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

// runToRest lets the world move until it has come to rest, or something went wrong.
func (w *world) runToRest(ctx context.Context) error {
	for {
		if failure := w.run(ctx); failure != nil || w.host.Stopped() {
			return failure
		}
		if !w.cluster.Repair() { // what was stopped starts again, so that something can come of it
			break
		}
	}
	owed := w.checker.CheckAtRest()
	if v := w.checker.FirstViolation(); v != nil {
		return v
	}
	if waiting := w.host.Waiting(); len(owed) > 0 || len(waiting) > 0 {
		return &Incomplete{Pending: owed, Waiting: waiting}
	}
	return nil
}

// repairOverdue lets what has been down for long enough come back.
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

// run lets the world move until it is at rest.
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
			if w.cluster.Repair() { // it may be that which keeps the world from its rest
				w.bound += w.bound - half
				half = steps + (w.bound-steps)/2
				continue
			}
			if l := w.cycle.check(w.cluster, steps); l != nil {
				return l
			}
			if steps >= w.bound {
				return &Livelock{Steps: steps - w.setupSteps}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return w.userFailure
}
