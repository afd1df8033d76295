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
	options []*Task
	sorted  bool
}

// Step is the number of the step to come; the first since SetStrategy is 1.
func (d *Decision) Step() int { return d.host.steps - d.host.strategyStart + 1 }

// Len is how many actors could be moved; at least 1.
func (d *Decision) Len() int { return len(d.options) }

// Task is the i-th actor that could be moved, in the ordinary order: 0 is the ordinary course.
func (d *Decision) Task(i int) *Task {
	switch {
	case d.sorted:
	case i == 0:
		d.moveFirst()
	default:
		slices.SortFunc(d.options, compareDefaultOrder)
		d.sorted = true
	}
	return d.options[i]
}

// moveFirst brings the first actor in the ordinary order to the front.
func (d *Decision) moveFirst() {
	least := 0
	for i, a := range d.options[1:] {
		if compareDefaultOrder(a, d.options[least]) < 0 {
			least = i + 1
		}
	}
	d.options[0], d.options[least] = d.options[least], d.options[0]
}

// Events names what could befall the world at this step, in a fixed order.
func (d *Decision) Events() []string { return d.eventsWithVerb("") }

// eventsWithVerb names those whose first word is a verb; "": all.
func (d *Decision) eventsWithVerb(verb string) []string { return d.host.eventNames(verb) }

// Events names what could befall the world now, in a fixed order: what Befall takes.
func (s *Stepped) Events() []string { return s.eventNames("") }

// eventNames names what could befall the world whose first word is a verb; "": all.
func (s *Stepped) eventNames(verb string) []string {
	happenings := s.possibleEvents(verb)
	names := make([]string, len(happenings))
	for i, h := range happenings {
		names[i] = h.Name
	}
	return names
}

// compareDefaultOrder compares in the ordinary order of events.
func compareDefaultOrder(a, b *Task) int {
	if c := int(a.currentClass()) - int(b.currentClass()); c != 0 {
		return c
	}
	if c := a.lastRun - b.lastRun; c != 0 {
		return c
	}
	return a.id - b.id
}

// Name is "component/strand".
func (a *Task) Name() string { return a.full }

// Process is the actor's component's name.
func (a *Task) Process() string { return a.process.name }

// IsUser tells whether the actor stands for somebody outside the control plane.
func (a *Task) IsUser() bool { return a.class == classUser }

// Pending is the call at which the actor is suspended, and whether it is.
func (a *Task) Pending() (trace.Action, bool) { return a.pendingCall, a.state == stateSuspended }

// chooserStrategy lets a Chooser decide.
type chooserStrategy struct{ chooser Chooser }

func (s chooserStrategy) Decide(d *Decision) Move {
	if d.Len() == 1 {
		return Move{}
	}
	return Move{Option: s.chooser.Choose(d.Len())}
}

// LastRunOrder names all actors of the world in the order in which they were moved last, the longest ago first: what the ordinary
// course depends on besides the state of the world.
func (d *Decision) LastRunOrder() []string {
	actors := slices.Clone(d.host.tasks)
	slices.SortStableFunc(actors, func(a, b *Task) int { return a.lastRun - b.lastRun })
	names := make([]string, len(actors))
	for i, a := range actors {
		names[i] = a.full
	}
	return names
}

// Event is something that can befall a stepped world when a Strategy says so, such as "crash pvcontroller". The name's
// first word is the verb of its record, the rest the object.
type Event struct {
	Name  string
	Apply func()
}

// AddEventSource has a function say what could befall the world, whenever that is asked; in an order that does not depend on
// chance. verb is the first word of the names of those that are asked for, "" if it is all of them; what else is among them is
// left out. The host itself adds one: "tick" moves the clock to the next sleeper or timer although something else could happen.
func (s *Stepped) AddEventSource(happenings func(verb string) []Event) {
	s.eventSources = append(s.eventSources, happenings)
}

// possibleEvents are what could befall the world whose first word is a verb; "": all.
func (s *Stepped) possibleEvents(verb string) []Event {
	var all []Event
	for _, f := range s.eventSources {
		all = append(all, f(verb)...)
	}
	if verb != "" {
		all = slices.DeleteFunc(all, func(h Event) bool { return verbOf(h.Name) != verb })
	}
	if verb == "" || verb == "tick" {
		if _, found := s.nextDeadline(); found {
			all = append(all, Event{"tick", func() { s.advance() }})
		}
	}
	return all
}

// verbOf is the first word of an event's name.
func verbOf(event string) string {
	verb, _, _ := strings.Cut(event, " ")
	return verb
}

// Inject lets the named event happen now, as a step of its own. It reports whether that was possible.
func (s *Stepped) Inject(name string) bool {
	happenings := s.possibleEvents(verbOf(name))
	i := slices.IndexFunc(happenings, func(h Event) bool { return h.Name == name })
	if i < 0 {
		return false
	}
	s.steps++
	s.recordEvent(name)
	happenings[i].Apply()
	return true
}
