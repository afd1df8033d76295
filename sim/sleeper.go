package sim

import "slices"

// sleeper is a strand of the live host that may have to wait until it is ready. It is woken when it is, not when it may
// be: whoever gives the monitor up asks those who sleep, since what makes a strand ready is state of its component or
// announced by Wake.
type sleeper struct {
	ready      func() bool   // asked in the monitor
	inlineTask *Task         // whose step whoever has the monitor may make, as it never leaves it; nil: nobody's
	token      chan struct{} // it is to look again; holds at most one
	asleep     bool          // in the monitor: nobody has woken it since it found that it was not ready
}

func newSleeper(ready func() bool) *sleeper {
	return &sleeper{ready: ready, token: make(chan struct{}, 1)}
}

// wake has the strand look again. It may be called from anywhere.
func (s *sleeper) wake() { putToken(s.token) }

// putToken puts a token where there is none.
func putToken(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// isReady asks the strand in the monitor, which it is about to give up if it is not.
func (s *sleeper) isReady() bool {
	s.asleep = !s.ready()
	return !s.asleep
}

func (c *Process) addSleeper(s *sleeper) {
	c.sleepersMu.Lock()
	defer c.sleepersMu.Unlock()
	c.sleepers = append(slices.Clip(c.sleepers), s)
}

func (c *Process) dropSleeper(s *sleeper) {
	c.sleepersMu.Lock()
	defer c.sleepersMu.Unlock()
	c.sleepers = slices.DeleteFunc(slices.Clone(c.sleepers), func(t *sleeper) bool { return s == t })
}

func (c *Process) allSleepers() []*sleeper {
	c.sleepersMu.Lock()
	defer c.sleepersMu.Unlock()
	return c.sleepers
}

// enter takes the monitor for a strand.
func (c *Process) enter(strand string) {
	c.mu.Lock()
	c.runningTask = strand
}

// leave gives the monitor up, having seen to those who have become ready meanwhile: it makes a step for whoever never leaves
// the component, which costs less than to have another goroutine make it, and wakes the others.
func (l *Live) leave(c *Process) {
	sleepers := c.allSleepers()
	for _, s := range sleepers {
		if s.inlineTask != nil && s.asleep && l.ctx.Err() == nil && s.ready() {
			l.stepFor(s.inlineTask)
		}
	}
	for _, s := range sleepers {
		if s.asleep && s.isReady() {
			s.wake()
		}
	}
	c.mu.Unlock()
	l.notifyWaits()
}

// stepFor makes a step of a strand that never leaves the component, for the one that has the monitor.
func (l *Live) stepFor(a *Task) {
	strand := a.process.runningTask
	a.process.runningTask = a.full
	l.runTask(a)
	a.process.runningTask = strand
}
