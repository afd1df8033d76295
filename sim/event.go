package sim

import (
	"slices"
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// An Event is something that happens to a world, such as "crash pvcontroller". The first word of the
// name is the verb of its record, the rest is the object. A Strategy can inject events into a stepped
// world, Inject into either.
type Event struct {
	Name  string
	Apply func()
}

// eventSources list the events that can be injected at the moment.
type eventSources []func(verb string) []Event

// possible returns the events whose first word is verb; "": all.
func (s eventSources) possible(verb string) []Event {
	var all []Event
	for _, f := range s {
		all = append(all, f(verb)...)
	}
	if verb != "" {
		all = slices.DeleteFunc(all, func(h Event) bool { return verbOf(h.Name) != verb })
	}
	return all
}

// verbOf returns the first word of an event's name.
func verbOf(event string) string {
	verb, _, _ := strings.Cut(event, " ")
	return verb
}

// namesOf returns the names of events.
func namesOf(events []Event) []string {
	names := make([]string, len(events))
	for i, h := range events {
		names[i] = h.Name
	}
	return names
}

// indexOf returns the index of the event with a name, or -1.
func indexOf(events []Event, name string) int {
	return slices.IndexFunc(events, func(h Event) bool { return h.Name == name })
}

// actionOf returns the action of an event's record.
func actionOf(event string) trace.Action {
	verb, object, _ := strings.Cut(event, " ")
	return trace.Action{Kind: trace.KindEvent, Verb: verb, Object: object}
}

// eventTask is the task of an event's record.
const eventTask = "world"

// AddEventSource adds a function that lists the events that can be injected at the moment. The
// order must be deterministic. verb is the first word of the names that the caller wants, "" for
// all; other events may be among the result and are ignored. The host itself adds "tick", which
// advances the clock to the next sleep or timer although a task could run.
func (s *Stepped) AddEventSource(events func(verb string) []Event) {
	s.eventSources = append(s.eventSources, events)
}

// Events returns the names of the events that Inject accepts now, in a fixed order.
func (s *Stepped) Events() []string { return s.eventNames("") }

// eventNames returns the names of the possible events whose first word is verb; "": all.
func (s *Stepped) eventNames(verb string) []string { return namesOf(s.possibleEvents(verb)) }

// possibleEvents returns the events that can be injected now and whose first word is verb; "": all.
func (s *Stepped) possibleEvents(verb string) []Event {
	all := s.eventSources.possible(verb)
	if verb == "" || verb == "tick" {
		if _, found := s.nextDeadline(); found {
			all = append(all, Event{"tick", func() { s.advance() }})
		}
	}
	return all
}

// Inject applies the named event now, as a step of its own. It reports whether the event was
// possible.
func (s *Stepped) Inject(name string) bool {
	events := s.possibleEvents(verbOf(name))
	i := indexOf(events, name)
	if i < 0 {
		return false
	}
	s.steps++
	s.recordEvent(name)
	events[i].Apply()
	return true
}

// AddEventSource adds a function that lists the events that can be injected at the moment; see Host.
// It is called before Start.
func (l *Live) AddEventSource(events func(verb string) []Event) {
	l.eventSources = append(l.eventSources, events)
}

// Events returns the names of the events that Inject accepts now, in a fixed order.
func (l *Live) Events() []string { return namesOf(l.eventSources.possible("")) }

// Inject applies the named event, and reports whether it was possible. Events are injected one after
// another. A task must not inject an event that ends its own process. The event is in the log after
// the last action of a process that it ends, and before the first of one that it starts.
func (l *Live) Inject(name string) bool {
	l.injecting.Lock()
	defer l.injecting.Unlock()
	events := l.eventSources.possible(verbOf(name))
	i := indexOf(events, name)
	if i < 0 {
		return false
	}
	l.injected.Store(&name)
	defer l.notifyWaits()
	defer l.recordInjected()
	events[i].Apply()
	return true
}

// recordInjected records the event that is being injected, if there is one and it is not in the log.
func (l *Live) recordInjected() {
	if name := l.injected.Swap(nil); name != nil {
		l.record(eventTask, actionOf(*name), trace.Outcome{}, 0)
	}
}
