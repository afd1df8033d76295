package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// StepsMax is how many steps one operation takes at most: what takes more is likely to go on for ever.
const StepsMax = 20_000

// closeMax is up to how many steps in one operation each of them is told of, also those that matter little.
const closeMax = 10

// Session is a world that is moved by hand. See the package's description.
type Session struct {
	cluster   *cluster.Cluster
	host      *sim.Stepped
	checker   *invariant.Checker
	strategy  manualStrategy
	began     int // how many records the set-up took
	done      []doneOp
	violation *invariant.Violation
	onRecord  func(r trace.Record) // is told of each action; nil: nobody wants to know
}

// doneOp is an operation that was done, or failed.
type doneOp struct {
	op      string
	verbose bool   // each action is told of, also those that matter little
	upTo    int    // how many records there were after it
	note    string // what there is to say at its end
}

// open makes a world of some headers, and lets it come to rest.
func open(headers Ops) (*Session, error) {
	world, err := scenario.Parse("session", strings.Join(append(slices.Clone(headers), "user user"), "\n"))
	if err != nil {
		return nil, err
	}
	c, err := cluster.New(world.World(sim.SteppedConfig{}))
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	s := &Session{cluster: c, host: c.Host().(*sim.Stepped)}
	s.checker = invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: s.host.Now, Devices: c.DeviceState()}, invariant.Rules()...)
	if err := c.Start(context.Background()); err != nil {
		return nil, errors.Join(fmt.Errorf("session: set-up: %w", err), c.Close())
	}
	for s.host.Busy() && s.host.Steps() < StepsMax {
		s.host.Step()
	}
	s.began = c.Trace().Steps()
	c.Trace().Watch(func(r trace.Record) {
		if s.onRecord != nil {
			s.onRecord(r)
		}
	})
	s.host.SetStrategy(&s.strategy)
	for _, each := range headers {
		s.done = append(s.done, doneOp{op: each, upTo: s.began})
	}
	return s, nil
}

// Do does one more operation. When it returns an error nothing has been done, or less than what was asked; the session is
// as it is then, and can go on.
func (s *Session) Do(text string) error {
	op, err := parse(text)
	if isHeader(text) {
		err = errors.New("what the world is made of is said before all else")
	}
	if err != nil {
		return fmt.Errorf("session: %q: %w", text, err)
	}
	note, err := s.recoverPanic(func() (string, error) { return s.do(op) })
	if err != nil {
		note = err.Error()
		err = fmt.Errorf("session: %q: %w", text, err)
	}
	s.done = append(s.done, doneOp{op: text, verbose: op.verb == "step" && op.count <= closeMax, upTo: s.cluster.Trace().Steps(), note: note})
	return err
}

// recoverPanic makes a panic of a part of the world an error.
func (s *Session) recoverPanic(do func() (string, error)) (note string, err error) {
	defer func() {
		if p := recover(); p != nil {
			actor, _ := s.host.PanickedTask()
			err = fmt.Errorf("%s panics: %v", cmp.Or(actor, "the world"), p)
		}
	}()
	return do()
}

// do does an operation, and returns what there is to say beside what happened.
func (s *Session) do(op operation) (note string, err error) {
	switch op.verb {
	case "":
		s.check() // somebody may have acted from outside, and says so
	case "step":
		return s.steps(op)
	case "until":
		return s.until(op)
	case "settle":
		return s.move(s.host.Busy)
	case "rest":
		return s.move(func() bool { return true })
	case "hold":
		return "", s.hold(op.target)
	case "release":
		at := slices.Index(s.strategy.held, op.target)
		if at < 0 {
			return "", fmt.Errorf("it is not held; held are: %s", cmp.Or(strings.Join(s.strategy.held, ", "), "none"))
		}
		s.strategy.held = slices.Delete(s.strategy.held, at, at+1)
	case "fail":
		if op.target != "" && !slices.Contains(s.cluster.Components(), op.target) && !isVerb(op.target) {
			return "", s.noComponent(op.target)
		}
		s.strategy.fault, s.strategy.faultTarget = op.fault, op.target
	case "befall":
		if !s.host.Inject(op.target) {
			return "", errors.New("it cannot happen now")
		}
		s.check()
	case "act":
		defer s.host.Resume()
		defer s.check()
		return "", op.act.Do(context.Background(), s.cluster, nil)
	}
	return "", nil
}

// hold keeps a part or an actor from being moved.
func (s *Session) hold(what string) error {
	switch {
	case slices.Contains(s.strategy.held, what):
		return errors.New("it is held already")
	case !slices.Contains(s.cluster.Components(), what) && !slices.Contains(s.host.Tasks(), what):
		return s.noComponent(what)
	}
	s.strategy.held = append(s.strategy.held, what)
	return nil
}

// noComponent is the error for a part or an actor that there is not.
func (s *Session) noComponent(name string) error {
	part := trace.Process(name)
	if !slices.Contains(s.cluster.Components(), part) {
		return fmt.Errorf("there is no part %s; there are %s", part, strings.Join(s.cluster.Components(), ", "))
	}
	actors := slices.DeleteFunc(s.host.Tasks(), func(actor string) bool { return trace.Process(actor) != part })
	return fmt.Errorf("%s has no %s; it has %s", part, name, strings.Join(actors, ", "))
}

// steps lets so many actions happen, or one of an actor.
func (s *Session) steps(op operation) (note string, err error) {
	s.strategy.want = op.target
	defer func() { s.strategy.want = "" }()
	for i := range op.count {
		moved := s.step()
		switch {
		case moved:
		case op.target != "" && !slices.Contains(s.host.Tasks(), op.target):
			return "", s.noComponent(op.target)
		case op.target != "":
			return "", errors.New("it has nothing to do now")
		case i == 0 || op.count > 1:
			return s.stopReason(), nil
		}
	}
	return "", nil
}

// until lets the world move until a call has been made.
func (s *Session) until(op operation) (note string, err error) {
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
	note, err = s.move(func() bool { return !made })
	switch {
	case err != nil || made:
		return "", err
	default:
		return "", fmt.Errorf("nobody does: %s", note)
	}
}

// move lets the world move as long as something says so, and tells why it came to a stop otherwise.
func (s *Session) move(on func() bool) (note string, err error) {
	for range StepsMax {
		if !on() || !s.step() {
			return s.stopReason(), nil
		}
	}
	return "", fmt.Errorf("the world has not come to rest in %d steps", StepsMax)
}

// step lets one thing happen, and tells whether something did.
func (s *Session) step() bool {
	moved := s.host.Step()
	s.host.Resume()
	s.check()
	return moved
}

// check keeps the first rule that was broken.
func (s *Session) check() {
	if s.violation == nil {
		s.violation = s.checker.FirstViolation()
	}
}

// stopReason says why nothing happens.
func (s *Session) stopReason() string {
	switch {
	case !s.host.Busy():
		return "nothing is left to happen"
	case len(s.strategy.held) > 0:
		return "nothing else is left to happen while these are held: " + strings.Join(s.strategy.held, ", ")
	default:
		return ""
	}
}

// Ops are the operations so far, also those that went wrong: without these the list can be played again.
func (s *Session) Ops() Ops {
	ops := make(Ops, len(s.done))
	for i, d := range s.done {
		ops[i] = d.op
	}
	return ops
}

// Violation is the first rule of package invariant that was broken, and how; nil: none.
func (s *Session) Violation() *invariant.Violation { return s.violation }

// Records are what has happened since the world was set up. Objects in them are read-only.
func (s *Session) Records() []trace.Record { return s.cluster.Trace().Records()[s.began:] }

// Scene is what a picture of the session is drawn from: picture.SpaceTime(s.Scene()).
func (s *Session) Scene() ([]trace.Record, picture.Options) {
	o := picture.Options{After: s.began}
	if s.violation != nil {
		o.ViolationStep, o.Verdict = s.violation.Step, []string{s.violation.Error()}
	}
	return s.cluster.Trace().Records(), o
}

// Log is the record of the world, its set-up included.
func (s *Session) Log() *trace.Log { return s.cluster.Trace() }

// Cluster is the world itself, to look at: its API server, the files in its volumes. Whoever changes it other than by Do
// leaves the session's list of operations incomplete.
func (s *Session) Cluster() *cluster.Cluster { return s.cluster }

// Close ends the world.
func (s *Session) Close() error { return s.cluster.Close() }
