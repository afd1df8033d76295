package sim

import "time"

// A Timer runs a function in its process at a given time. Only tasks of that process may use it.
type Timer struct {
	process    *Process
	task       Task
	fire       func()
	background bool
	heartbeat  bool // see QueueConfig
	// missed, if not nil, returns the time at which a watchdog must fire; see QueueConfig.
	missed      func(beats func(key any) bool) (time.Time, bool)
	armed       bool
	deadline    time.Time
	stop        func() bool // live: stops the runtime's timer
	changesSeen int         // stepped: the number of changes when it last fired
}

// NewTimer returns a timer that is not set. fire runs as a task of its own and must not suspend.
func (p *Process) NewTimer(name string, fire func()) *Timer {
	t := p.newTimer()
	t.fire = fire
	t.register(p, name)
	return t
}

// register adds the task of a timer to a process.
func (t *Timer) register(p *Process, name string) {
	t.process = p
	t.task.name, t.task.class, t.task.inline, t.task.timer = name, classWorker, true, t
	p.add(&t.task)
}

// NewBackgroundTimer returns a timer for periodic work (a resync, a poll). A world counts as
// quiescent if only background timers are left and each has fired since the last change.
func (p *Process) NewBackgroundTimer(name string, fire func()) *Timer {
	t := p.NewTimer(name, fire)
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

func (t *Timer) run() {
	t.Stop()
	t.fire()
}
