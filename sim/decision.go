package sim

import (
	"slices"
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// Strategy decides what happens at each step of a stepped world: which actor is moved, what goes wrong with the call it
// makes, what befalls the world. It is more than a Chooser, in that it sees what it chooses among.
type Strategy interface {
	// Decide is asked once a step. d may be used until it returns.
	Decide(d *Decision) Move
}

// Move is what a Strategy decides. The zero value is the ordinary course.
type Move struct {
	Option int    // which of the decision's actors is moved
	Fault  Fault  // what goes wrong with the call that this actor makes; the zero Fault: nothing
	Event  string // what befalls the world, one of Decision.Events; then no actor is moved. "": nothing
	Stop   bool   // nothing happens any more: the run ends here
}

// Decision is what could happen at one step.
type Decision struct {
	host    *Stepped
	options []*Actor
	sorted  bool
}

// Step is the number of the step to come; the first since SetStrategy is 1.
func (d *Decision) Step() int { return d.host.steps - d.host.base + 1 }

// Len is how many actors could be moved; at least 1.
func (d *Decision) Len() int { return len(d.options) }

// Actor is the i-th actor that could be moved, in the ordinary order: 0 is the ordinary course.
func (d *Decision) Actor(i int) *Actor {
	switch {
	case d.sorted:
	case i == 0:
		d.first()
	default:
		slices.SortFunc(d.options, ordinary)
		d.sorted = true
	}
	return d.options[i]
}

// first brings the first actor in the ordinary order to the front.
func (d *Decision) first() {
	least := 0
	for i, a := range d.options[1:] {
		if ordinary(a, d.options[least]) < 0 {
			least = i + 1
		}
	}
	d.options[0], d.options[least] = d.options[least], d.options[0]
}

// Events names what could befall the world at this step, in a fixed order.
func (d *Decision) Events() []string { return d.eventsOf("") }

// eventsOf names those whose first word is a verb; "": all.
func (d *Decision) eventsOf(verb string) []string { return d.host.events(verb) }

// Events names what could befall the world now, in a fixed order: what Befall takes.
func (s *Stepped) Events() []string { return s.events("") }

// events names what could befall the world whose first word is a verb; "": all.
func (s *Stepped) events(verb string) []string {
	happenings := s.happenings(verb)
	names := make([]string, len(happenings))
	for i, h := range happenings {
		names[i] = h.Name
	}
	return names
}

// ordinary compares in the ordinary order of events.
func ordinary(a, b *Actor) int {
	if c := int(a.rank()) - int(b.rank()); c != 0 {
		return c
	}
	if c := a.lastRun - b.lastRun; c != 0 {
		return c
	}
	return a.id - b.id
}

// Name is "component/strand".
func (a *Actor) Name() string { return a.full }

// Component is the actor's component's name.
func (a *Actor) Component() string { return a.c.name }

// IsUser tells whether the actor stands for somebody outside the control plane.
func (a *Actor) IsUser() bool { return a.class == classUser }

// Pending is the call at which the actor is suspended, and whether it is.
func (a *Actor) Pending() (trace.Action, bool) { return a.pending, a.state == stateSuspended }

// asking lets a Chooser decide.
type asking struct{ chooser Chooser }

func (s asking) Decide(d *Decision) Move {
	if d.Len() == 1 {
		return Move{}
	}
	return Move{Option: s.chooser.Choose(d.Len())}
}

// Turns names all actors of the world in the order in which they were moved last, the longest ago first: what the ordinary
// course depends on besides the state of the world.
func (d *Decision) Turns() []string {
	actors := slices.Clone(d.host.actors)
	slices.SortStableFunc(actors, func(a, b *Actor) int { return a.lastRun - b.lastRun })
	names := make([]string, len(actors))
	for i, a := range actors {
		names[i] = a.full
	}
	return names
}

// Happening is something that can befall a stepped world when a Strategy says so, such as "crash pvcontroller". The name's
// first word is the verb of its record, the rest the object.
type Happening struct {
	Name   string
	Happen func()
}

// Foresee has a function say what could befall the world, whenever that is asked; in an order that does not depend on
// chance. verb is the first word of the names of those that are asked for, "" if it is all of them; what else is among them is
// left out. The host itself adds one: "tick" moves the clock to the next sleeper or timer although something else could happen.
func (s *Stepped) Foresee(happenings func(verb string) []Happening) {
	s.foresee = append(s.foresee, happenings)
}

// happenings are what could befall the world whose first word is a verb; "": all.
func (s *Stepped) happenings(verb string) []Happening {
	var all []Happening
	for _, f := range s.foresee {
		all = append(all, f(verb)...)
	}
	if verb != "" {
		all = slices.DeleteFunc(all, func(h Happening) bool { return verbOf(h.Name) != verb })
	}
	if verb == "" || verb == "tick" {
		if _, found := s.upcoming(); found {
			all = append(all, Happening{"tick", func() { s.advance() }})
		}
	}
	return all
}

// verbOf is the first word of an event's name.
func verbOf(event string) string {
	verb, _, _ := strings.Cut(event, " ")
	return verb
}

// Befall lets the named event happen now, as a step of its own. It reports whether that was possible.
func (s *Stepped) Befall(name string) bool {
	happenings := s.happenings(verbOf(name))
	i := slices.IndexFunc(happenings, func(h Happening) bool { return h.Name == name })
	if i < 0 {
		return false
	}
	s.steps++
	s.noteEvent(name)
	happenings[i].Happen()
	return true
}
