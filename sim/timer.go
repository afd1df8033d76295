package sim

import (
	"context"
	"time"
)

// Timer does something in its component at a given time. Like the rest of a component it belongs to the component's
// strands.
type Timer struct {
	process     *Process
	task        Task
	fire        func()
	background  bool
	armed       bool
	deadline    time.Time
	stop        func() bool // live: stops the runtime's timer
	changesSeen int         // stepped: how much had changed when it last moved the clock
}

// NewTimer makes a timer, not yet set. fire runs as a strand of its own and must not leave the component.
func (c *Process) NewTimer(name string, fire func()) *Timer {
	t := &Timer{process: c, fire: fire}
	t.task = Task{name: name, class: classWorker, ready: t.due, step: t.run, inline: true, timer: t}
	c.add(&t.task)
	return t
}

// NewBackgroundTimer makes a timer for what goes on for ever (a periodic resync, a poll): a world in which only background
// timers are left, and each of them has fired since something last changed, counts as quiescent.
func (c *Process) NewBackgroundTimer(name string, fire func()) *Timer {
	t := c.NewTimer(name, fire)
	t.background = true
	return t
}

// Reset sets the timer to d from now.
func (t *Timer) Reset(d time.Duration) { t.ResetAt(t.process.Now().Add(d)) }

// ResetAt sets the timer to a time.
func (t *Timer) ResetAt(deadline time.Time) {
	t.armed, t.deadline = true, deadline
	t.process.host.arm(t)
}

// Stop unsets the timer.
func (t *Timer) Stop() {
	t.armed = false
	t.process.host.arm(t)
}

func (t *Timer) due() bool { return t.armed && !t.process.Now().Before(t.deadline) }

func (t *Timer) run(context.Context) {
	t.Stop()
	t.fire()
}
