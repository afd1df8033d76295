package sim

import (
	"context"
	"time"
)

// Timer does something in its component at a given time. Like the rest of a component it belongs to the component's
// strands.
type Timer struct {
	c          *Component
	actor      Actor
	fire       func()
	background bool
	armed      bool
	deadline   time.Time
	stop       func() bool // live: stops the runtime's timer
	polled     int         // stepped: how much had changed when it last moved the clock
}

// NewTimer makes a timer, not yet set. fire runs as a strand of its own and must not leave the component.
func (c *Component) NewTimer(name string, fire func()) *Timer {
	t := &Timer{c: c, fire: fire}
	t.actor = Actor{name: name, class: classWorker, ready: t.due, step: t.run, plain: true, timer: t}
	c.add(&t.actor)
	return t
}

// NewBackgroundTimer makes a timer for what goes on for ever (a periodic resync, a poll): a world in which only background
// timers are left, and each of them has fired since something last changed, counts as quiescent.
func (c *Component) NewBackgroundTimer(name string, fire func()) *Timer {
	t := c.NewTimer(name, fire)
	t.background = true
	return t
}

// Reset sets the timer to d from now.
func (t *Timer) Reset(d time.Duration) { t.ResetAt(t.c.Now().Add(d)) }

// ResetAt sets the timer to a time.
func (t *Timer) ResetAt(deadline time.Time) {
	t.armed, t.deadline = true, deadline
	t.c.host.arm(t)
}

// Stop unsets the timer.
func (t *Timer) Stop() {
	t.armed = false
	t.c.host.arm(t)
}

func (t *Timer) due() bool { return t.armed && !t.c.Now().Before(t.deadline) }

func (t *Timer) run(context.Context) {
	t.Stop()
	t.fire()
}
