package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/apirequest"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// stepsMax is the bound on the steps of one operation. More are probably a livelock.
const stepsMax = 20_000

// closeMax is the number of steps in one operation up to which the story includes every action.
const closeMax = 10

// A Session is a world that is stepped interactively; see the package documentation.
type Session struct {
	cluster     *cluster.Cluster
	host        *sim.Stepped
	checker     *invariant.Checker
	strategy    manualStrategy
	began       int // number of records of the set-up
	setupSteps  int // steps of the set-up
	moves       int // steps and events of the schedule since the set-up
	world       int // number of lines in done that describe the world
	done        []doneOp
	userFailure error // of a user's task, until it was reported
	violation   *invariant.Violation
	onRecord    func(r trace.Record) // called with each record; nil: not called
}

// A doneOp is an operation that was performed or failed.
type doneOp struct {
	op      string
	again   string // the operation that has the same effect; "": it had none
	verbose bool   // the story includes every action
	upTo    int    // number of records after it
	note    string // remark at its end
}

// open creates a world from its description and runs its set-up.
func open(lines Ops) (*Session, error) {
	text := slices.Clone(lines)
	alone := !slices.ContainsFunc(lines, isUser)
	if alone { // a scenario has a user
		text = append(text, "user user")
	}
	world, err := scenario.Parse("session", strings.Join(text, "\n"))
	if err != nil {
		return nil, err
	}
	rules := invariant.Rules()
	if world.Rules != nil {
		if rules, err = invariant.Select(world.Rules...); err != nil {
			return nil, fmt.Errorf("session: %w", err)
		}
	}
	c, err := cluster.New(world.World(sim.SteppedConfig{}))
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	s := &Session{cluster: c, host: c.Host().(*sim.Stepped), world: len(lines)}
	s.checker = invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: s.host.Now, Devices: c.DeviceState()}, rules...)
	if err := c.Start(context.Background()); err != nil {
		return nil, errors.Join(fmt.Errorf("session: set-up: %w", err), c.Close())
	}
	for s.host.Busy() && s.host.Steps() < stepsMax {
		if !s.host.Step() {
			break
		}
	}
	s.began, s.setupSteps = c.Trace().Steps(), s.host.Steps()
	if !alone {
		for _, user := range world.Users {
			s.startUser(user)
		}
	}
	c.Trace().Watch(func(r trace.Record) {
		if s.onRecord != nil {
			s.onRecord(r)
		}
	})
	if len(world.Schedule) > 0 {
		s.strategy.replay = sim.NewReplayStrategy(world.Schedule)
	}
	s.host.SetStrategy(&s.strategy)
	for _, each := range lines {
		s.done = append(s.done, doneOp{op: each, again: each, upTo: s.began})
	}
	return s, nil
}

// startUser starts the task of a user, which acts in the world.
func (s *Session) startUser(u scenario.User) {
	process := s.host.Process(u.Name)
	process.User("", func(ctx context.Context) {
		for _, act := range u.Acts {
			if err := act.Do(ctx, s.cluster, process); err != nil {
				s.userFailure = fmt.Errorf("user %s: %s: %w", u.Name, act, err)
				return
			}
		}
	})
}

// Do is DoContext without a context.
func (s *Session) Do(text string) error { return s.DoContext(context.Background(), text) }

// DoContext performs one more operation. On an error nothing was done, or less than asked; the
// session remains usable. An operation that runs the world ends with an error between two steps
// when ctx ends.
func (s *Session) DoContext(ctx context.Context, text string) error {
	op, err := parse(text)
	if isHeader(text) {
		err = errors.New("headers must come before all other operations")
	}
	if err != nil {
		return fmt.Errorf("session: %q: %w", public(text), err)
	}
	if op.verb == "act" && strings.Contains(text, "\n") {
		text = op.act.String() // in one line
	}
	moves, steps, again := s.moves, s.host.Steps(), text
	note, err := s.recoverPanic(func() (string, error) { return s.do(ctx, op, text) })
	steps = s.host.Steps() - steps
	if err == nil {
		err = s.host.Err()
	}
	if err != nil && errors.Is(err, ctx.Err()) {
		err = s.interrupted(steps) // an act that waits
	}
	if err == nil && s.userFailure != nil {
		note, s.userFailure = s.userFailure.Error(), nil
	}
	if err != nil {
		note = err.Error()
		err = fmt.Errorf("session: %q: %w", public(text), err)
		again = stepsOnly(max(s.moves-moves, steps))
	}
	s.done = append(s.done, doneOp{
		op: text, again: again, verbose: op.verb == "step" && op.count <= closeMax, upTo: s.cluster.Trace().Steps(), note: note,
	})
	return err
}

// stepsOnly returns the operation that runs so many steps, "" for none.
func stepsOnly(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("step %d", n)
}

// recoverPanic turns the panic of a component into an error.
func (s *Session) recoverPanic(do func() (string, error)) (note string, err error) {
	defer func() {
		if p := recover(); p != nil {
			task, _ := s.host.PanickedTask()
			err = fmt.Errorf("%s panicked: %v", cmp.Or(task, "the world"), p)
		}
	}()
	return do()
}

// do performs an operation and returns a remark for the story.
func (s *Session) do(ctx context.Context, op operation, text string) (note string, err error) {
	switch op.verb {
	case "":
		s.check() // a comment: the caller may have changed the world directly
	case "step":
		return s.steps(ctx, op)
	case "until":
		return s.until(ctx, op)
	case "settle":
		return s.move(ctx, s.host.Busy)
	case "rest":
		return s.move(ctx, func() bool { return true })
	case "hold":
		return "", s.hold(op.target)
	case "release":
		at := slices.Index(s.strategy.held, op.target)
		if at < 0 {
			return "", fmt.Errorf("not held (held: %s)", cmp.Or(strings.Join(s.strategy.held, ", "), "none"))
		}
		s.strategy.held = slices.Delete(s.strategy.held, at, at+1)
	case "fail":
		if op.target != "" && !slices.Contains(s.cluster.Components(), op.target) && !isVerb(op.target) {
			return "", s.noComponent(op.target)
		}
		s.strategy.fault, s.strategy.faultTarget = op.fault, op.target
	case "inject":
		if !s.host.Inject(op.target) {
			return "", s.notPossible(op.target)
		}
		s.check()
	case "act":
		defer s.host.Resume()
		defer s.check()
		before := s.cluster.Trace().Steps()
		err := op.act.Do(ctx, s.cluster, nil)
		if err == nil && strings.HasPrefix(strings.TrimSpace(text), "write ") { // no request, so nothing in the trace
			return "written", nil
		}
		return s.rejection(text, before), err
	}
	return "", nil
}

// rejection returns the answer to a request that the server rejected, "" for other operations.
func (s *Session) rejection(op string, before int) string {
	if !isRequest(op) {
		return ""
	}
	for _, r := range s.cluster.Trace().Records()[before:] {
		if r.Err != nil {
			return "rejected: " + r.Err.Error()
		}
	}
	return ""
}

// Performed adds an operation for an API request that a client has sent to the world's server. The
// request has already taken effect; performing the operation in another world repeats it.
func (s *Session) Performed(r *http.Request, body []byte) error {
	op := "request " + apirequest.Of(r, body).String()
	if _, err := parse(op); err != nil {
		return fmt.Errorf("session: request %s %s: %w", r.Method, r.URL.Path, err)
	}
	s.check()
	s.host.Resume()
	before := s.began
	if len(s.done) > 0 {
		before = s.done[len(s.done)-1].upTo
	}
	s.done = append(s.done, doneOp{op: op, again: op, upTo: s.cluster.Trace().Steps(), note: s.rejection(op, before)})
	return nil
}

// notPossible returns the error for an event that cannot be injected. It names the known targets if
// the event's target is not one of them.
func (s *Session) notPossible(event string) error {
	name, target, _ := strings.Cut(event, " ")
	if target == "" && name != "tick" {
		for _, possible := range s.host.Events() {
			if strings.HasPrefix(possible, name+" ") {
				return fmt.Errorf("want a target, such as %s", possible)
			}
		}
	}
	spec := sim.FaultSpec{Name: name, Target: target}
	if err := s.cluster.ValidateFaults(sim.FaultSpecs{spec}); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("fault %s: ", spec)))
	}
	return errors.New("not possible now")
}

// hold keeps a component or a task from running.
func (s *Session) hold(what string) error {
	switch {
	case slices.Contains(s.strategy.held, what):
		return errors.New("already held")
	case !slices.Contains(s.cluster.Components(), what) && !slices.Contains(s.host.Tasks(), what):
		return s.noComponent(what)
	}
	s.strategy.held = append(s.strategy.held, what)
	return nil
}

// noComponent returns the error for an unknown component or task.
func (s *Session) noComponent(name string) error {
	component := trace.Process(name)
	if !slices.Contains(s.cluster.Components(), component) {
		return fmt.Errorf("no such component %q (have %s)", component, strings.Join(s.cluster.Components(), ", "))
	}
	tasks := slices.DeleteFunc(s.host.Tasks(), func(task string) bool { return trace.Process(task) != component })
	return fmt.Errorf("%s: no such task %q (have %s)", component, name, strings.Join(tasks, ", "))
}

// steps runs so many steps, or one of a task.
func (s *Session) steps(ctx context.Context, op operation) (note string, err error) {
	s.strategy.want = op.target
	defer func() { s.strategy.want = "" }()
	for i := range op.count {
		if ctx.Err() != nil {
			return "", s.interrupted(i)
		}
		moved := s.step()
		switch {
		case moved:
		case op.target != "" && !s.hasTask(op.target):
			return "", s.noComponent(op.target)
		case op.target != "":
			return "", errors.New("the task cannot run now")
		case i == 0 || op.count > 1:
			return s.stopReason(), nil
		}
	}
	return "", nil
}

// hasTask reports whether the world has a task, perhaps with a number.
func (s *Session) hasTask(task string) bool {
	name, _ := splitTaskNumber(task)
	return slices.Contains(s.host.Tasks(), name)
}

// until runs the world until a call was made.
func (s *Session) until(ctx context.Context, op operation) (note string, err error) {
	if op.component != "" && !slices.Contains(s.cluster.Components(), op.component) {
		return "", s.noComponent(op.component)
	}
	made := false
	s.onRecord = func(r trace.Record) {
		verb, _, _ := strings.Cut(r.Verb, "/")
		calls := r.Kind == trace.KindAPI || r.Kind == trace.KindDriver
		made = made || calls && (r.Verb == op.target || verb == op.target) && (op.component == "" || op.component == trace.Process(r.Task))
	}
	defer func() { s.onRecord = nil }()
	note, err = s.move(ctx, func() bool { return !made })
	switch {
	case err != nil || made:
		return "", err
	default:
		return "", fmt.Errorf("no such call: %s", note)
	}
}

// move runs the world while on holds. It returns why the world stopped otherwise.
func (s *Session) move(ctx context.Context, on func() bool) (note string, err error) {
	for i := range stepsMax {
		if ctx.Err() != nil {
			return "", s.interrupted(i)
		}
		if !on() || !s.step() {
			return s.stopReason(), nil
		}
	}
	return "", fmt.Errorf("not at rest after %d steps", stepsMax)
}

// interrupted returns the error of an operation that ended after so many steps.
func (s *Session) interrupted(after int) error {
	if after == 1 {
		return errors.New("interrupted after 1 step")
	}
	return fmt.Errorf("interrupted after %d steps", after)
}

// step makes one step and reports whether it did.
func (s *Session) step() bool {
	moved := s.host.Step()
	if moved {
		s.moves++
	}
	s.host.Resume()
	s.check()
	return moved
}

// check keeps the first violation.
func (s *Session) check() {
	if s.violation == nil {
		s.violation = s.checker.FirstViolation()
	}
}

// stopReason returns why no task runs.
func (s *Session) stopReason() string {
	switch {
	case !s.host.Busy():
		return "nothing left to do"
	case len(s.strategy.held) > 0:
		return "nothing left to do except for held tasks: " + strings.Join(s.strategy.held, ", ")
	default:
		return ""
	}
}

// Ops returns the operations so far, including those that failed. See Replayable for a list that
// can be played again.
func (s *Session) Ops() Ops {
	ops := make(Ops, len(s.done))
	for i, d := range s.done {
		ops[i] = d.op
	}
	return ops
}

// Replayable returns a list whose Play leads to the same state, with the violated rule in its
// header "violates". It omits operations that failed. An operation that failed or was interrupted
// after some steps is replaced by these steps. Package explore replays the list, too, if it has
// users and no operations.
func (s *Session) Replayable() Ops {
	var ops Ops
	isViolates := func(line string) bool { return strings.HasPrefix(line, "violates:") }
	for i, d := range s.done {
		if i == s.world && s.violation != nil {
			ops = append(ops, "violates: "+s.violation.Rule.ID)
		}
		if d.again != "" && (i >= s.world || s.violation == nil || !isViolates(d.op)) {
			ops = append(ops, d.again)
		}
	}
	return ops
}

// Violation returns the first violation of a rule of package invariant, nil if there is none.
func (s *Session) Violation() *invariant.Violation { return s.violation }

// Records returns the records since the set-up of the world. Objects in them are read-only.
func (s *Session) Records() []trace.Record { return s.cluster.Trace().Records()[s.began:] }

// Scene returns the arguments for a picture of the session: picture.SpaceTime(s.Scene()).
func (s *Session) Scene() ([]trace.Record, picture.Options) {
	o := picture.Options{After: s.began}
	if s.violation != nil {
		o.ViolationStep, o.Verdict = s.violation.Step, []string{s.violation.Error()}
	}
	return s.cluster.Trace().Records(), o
}

// Log returns the trace of the world, including its set-up.
func (s *Session) Log() *trace.Log { return s.cluster.Trace() }

// Cluster returns the world for inspection: its API server, the files in its volumes. A change
// other than by Do is missing from the session's list of operations.
func (s *Session) Cluster() *cluster.Cluster { return s.cluster }

// Close closes the world.
func (s *Session) Close() error { return s.cluster.Close() }
