package sim

import (
	"slices"

	"github.com/volsim/volsim/sim/trace"
)

// A Strategy decides what happens at each step of a stepped world: which task runs, which fault its
// call has, which event is injected. Unlike a Chooser it sees the alternatives.
type Strategy interface {
	// Decide is called once a step. d is valid until Decide returns.
	Decide(d *Decision) Move
}

// A Move is the decision of a Strategy. The zero value follows the default order.
type Move struct {
	Option int    // index of the task that runs, among the decision's tasks
	Fault  Fault  // injected into the call that this task makes; the zero Fault: none
	Event  string // injected event, one of Decision.Events; no task runs then. "": none
	Stop   bool   // ends the run
}

// A Decision lists the alternatives at one step.
type Decision struct {
	host    *Stepped
	options []*Task
	sorted  bool
}

// Step returns the number of the coming step. The first step since SetStrategy is 1.
func (d *Decision) Step() int { return d.host.steps - d.host.strategyStart + 1 }

// Len returns the number of tasks that can run, at least 1.
func (d *Decision) Len() int { return len(d.options) }

// Task returns the i-th task that can run, in the default order.
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

// moveFirst swaps the first task in the default order to the front.
func (d *Decision) moveFirst() {
	least := 0
	for i, t := range d.options[1:] {
		if compareDefaultOrder(t, d.options[least]) < 0 {
			least = i + 1
		}
	}
	d.options[0], d.options[least] = d.options[least], d.options[0]
}

// Events returns the names of the events that can be injected at this step, in a fixed order.
func (d *Decision) Events() []string { return d.eventsWithVerb("") }

// eventsWithVerb returns the names of the events whose first word is verb; "": all.
func (d *Decision) eventsWithVerb(verb string) []string { return d.host.eventNames(verb) }

// compareDefaultOrder compares two tasks in the default order.
func compareDefaultOrder(a, b *Task) int {
	if c := int(a.currentClass()) - int(b.currentClass()); c != 0 {
		return c
	}
	if c := a.lastRun - b.lastRun; c != 0 {
		return c
	}
	return a.id - b.id
}

// Name returns "process/task".
func (t *Task) Name() string { return t.full }

// Process returns the name of the task's process.
func (t *Task) Process() string { return t.process.name }

// IsUser reports whether the task stands for a user outside the control plane.
func (t *Task) IsUser() bool { return t.class == classUser }

// InFlight reports whether the task is in the middle of a piece of work.
func (t *Task) InFlight() bool { return t.state != stateIdle }

// Pending returns the call at which the task is suspended, and whether it is suspended at one.
func (t *Task) Pending() (trace.Action, bool) { return t.pendingCall, t.state == stateSuspended }

// A chooserStrategy is the Strategy of a Chooser.
type chooserStrategy struct{ chooser Chooser }

func (s chooserStrategy) Decide(d *Decision) Move {
	if d.Len() == 1 {
		return Move{}
	}
	return Move{Option: s.chooser.Choose(d.Len())}
}

// LastRunOrder returns the names of all tasks of the world, sorted by the step at which they ran
// last, earliest first. The default order depends on it, besides the state of the world.
func (d *Decision) LastRunOrder() []string {
	tasks := slices.Clone(d.host.tasks)
	slices.SortStableFunc(tasks, func(a, b *Task) int { return a.lastRun - b.lastRun })
	names := make([]string, len(tasks))
	for i, a := range tasks {
		names[i] = a.full
	}
	return names
}
