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
	cluster *cluster.Cluster
	host    *sim.Stepped
	checker *invariant.Checker
	hand    hand
	began   int // how many records the set-up took
	done    []done
	broken  *invariant.Violation
	heard   func(r trace.Record) // is told of each action; nil: nobody wants to know
}

// done is an operation that was done, or failed.
type done struct {
	op     string
	closer bool   // each action is told of, also those that matter little
	upTo   int    // how many records there were after it
	note   string // what there is to say at its end
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
	s.checker = invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: s.host.Now, Devices: c.Truth()}, invariant.Rules()...)
	if err := c.Start(context.Background()); err != nil {
		return nil, errors.Join(fmt.Errorf("session: set-up: %w", err), c.Close())
	}
	for s.host.Busy() && s.host.Steps() < StepsMax {
		s.host.Step()
	}
	s.began = c.Trace().Steps()
	c.Trace().Watch(func(r trace.Record) {
		if s.heard != nil {
			s.heard(r)
		}
	})
	s.host.SetStrategy(&s.hand)
	for _, each := range headers {
		s.done = append(s.done, done{op: each, upTo: s.began})
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
	note, err := s.guard(func() (string, error) { return s.do(op) })
	if err != nil {
		note = err.Error()
		err = fmt.Errorf("session: %q: %w", text, err)
	}
	s.done = append(s.done, done{op: text, closer: op.verb == "step" && op.many <= closeMax, upTo: s.cluster.Trace().Steps(), note: note})
	return err
}

// guard makes a panic of a part of the world an error.
func (s *Session) guard(do func() (string, error)) (note string, err error) {
	defer func() {
		if p := recover(); p != nil {
			actor, _ := s.host.Panicked()
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
		return "", s.hold(op.of)
	case "release":
		at := slices.Index(s.hand.held, op.of)
		if at < 0 {
			return "", fmt.Errorf("it is not held; held are: %s", cmp.Or(strings.Join(s.hand.held, ", "), "none"))
		}
		s.hand.held = slices.Delete(s.hand.held, at, at+1)
	case "fail":
		if op.of != "" && !slices.Contains(s.cluster.Parts(), op.of) && !isVerb(op.of) {
			return "", s.noPart(op.of)
		}
		s.hand.fault, s.hand.whose = op.fault, op.of
	case "befall":
		if !s.host.Befall(op.of) {
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
	case slices.Contains(s.hand.held, what):
		return errors.New("it is held already")
	case !slices.Contains(s.cluster.Parts(), what) && !slices.Contains(s.host.Actors(), what):
		return s.noPart(what)
	}
	s.hand.held = append(s.hand.held, what)
	return nil
}

// noPart is the error for a part or an actor that there is not.
func (s *Session) noPart(name string) error {
	part := trace.Component(name)
	if !slices.Contains(s.cluster.Parts(), part) {
		return fmt.Errorf("there is no part %s; there are %s", part, strings.Join(s.cluster.Parts(), ", "))
	}
	actors := slices.DeleteFunc(s.host.Actors(), func(actor string) bool { return trace.Component(actor) != part })
	return fmt.Errorf("%s has no %s; it has %s", part, name, strings.Join(actors, ", "))
}

// steps lets so many actions happen, or one of an actor.
func (s *Session) steps(op operation) (note string, err error) {
	s.hand.want = op.of
	defer func() { s.hand.want = "" }()
	for i := range op.many {
		moved := s.step()
		switch {
		case moved:
		case op.of != "" && !slices.Contains(s.host.Actors(), op.of):
			return "", s.noPart(op.of)
		case op.of != "":
			return "", errors.New("it has nothing to do now")
		case i == 0 || op.many > 1:
			return s.stillness(), nil
		}
	}
	return "", nil
}

// until lets the world move until a call has been made.
func (s *Session) until(op operation) (note string, err error) {
	if op.part != "" && !slices.Contains(s.cluster.Parts(), op.part) {
		return "", s.noPart(op.part)
	}
	made := false
	s.heard = func(r trace.Record) {
		verb, _, _ := strings.Cut(r.Verb, "/")
		calls := r.Kind == trace.KindAPI || r.Kind == trace.KindDriver
		made = made || calls && (r.Verb == op.of || verb == op.of) && (op.part == "" || op.part == trace.Component(r.Actor))
	}
	defer func() { s.heard = nil }()
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
			return s.stillness(), nil
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
	if s.broken == nil {
		s.broken = s.checker.Broken()
	}
}

// stillness says why nothing happens.
func (s *Session) stillness() string {
	switch {
	case !s.host.Busy():
		return "nothing is left to happen"
	case len(s.hand.held) > 0:
		return "nothing else is left to happen while these are held: " + strings.Join(s.hand.held, ", ")
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

// Broken is the first rule of package invariant that was broken, and how; nil: none.
func (s *Session) Broken() *invariant.Violation { return s.broken }

// Records are what has happened since the world was set up. Objects in them are read-only.
func (s *Session) Records() []trace.Record { return s.cluster.Trace().Records()[s.began:] }

// Scene is what a picture of the session is drawn from: picture.SpaceTime(s.Scene()).
func (s *Session) Scene() ([]trace.Record, picture.Options) {
	o := picture.Options{After: s.began}
	if s.broken != nil {
		o.Broken, o.Verdict = s.broken.Step, []string{s.broken.Error()}
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
