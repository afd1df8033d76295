package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// touch notes that the actors of a component must be asked again whether they are ready.
func (s *Stepped) touch(c *Process) {
	if !c.touched {
		c.touched = true
		s.touched = append(s.touched, c)
	}
}

// ready lists the actors that could be moved now, in no order. Only those are asked whose component was touched, and those
// that wait for something about the whole world.
func (s *Stepped) ready() []*Task {
	for i := 0; i < len(s.touched); i++ { // being asked, an actor may touch its component once more
		c := s.touched[i]
		c.touched = false
		for _, a := range c.tasks {
			s.refresh(a)
		}
	}
	s.touched = s.touched[:0]
	for _, a := range s.worldWaiters {
		s.refresh(a)
	}
	return s.enabled
}

// refresh asks an actor whether it is ready.
func (s *Stepped) refresh(a *Task) {
	switch a.state {
	case stateIdle:
		a.isReady = a.ready()
	case stateWaiting:
		a.isReady = (a.signal == nil || a.signaled) && a.cond()
		a.signaled = a.isReady
	}
	switch movable := s.runnable(a); {
	case movable && a.slot == 0:
		s.enabled = append(s.enabled, a)
		a.slot = len(s.enabled)
	case !movable && a.slot > 0:
		s.disable(a)
	}
}

// disable takes an actor out of those that could be moved.
func (s *Stepped) disable(a *Task) {
	last := s.enabled[len(s.enabled)-1]
	s.enabled[a.slot-1], last.slot = last, a.slot
	s.enabled = s.enabled[:len(s.enabled)-1]
	a.slot = 0
}

func (s *Stepped) runnable(a *Task) bool {
	switch a.state {
	case stateIdle:
		return a.isReady
	case stateWaiting:
		return a.isReady || !a.wakeAt.IsZero() && !s.Now().Before(a.wakeAt)
	case stateSuspended:
		return true
	case stateSleeping:
		return !s.Now().Before(a.wakeAt)
	default:
		return false
	}
}

// currentClass is the actor's class at this moment: a worker in the middle of its work is in flight, a delivery may be late.
func (a *Task) currentClass() class {
	switch {
	case a.class == classWorker && a.state != stateIdle:
		return classInFlight
	case a.lagging != nil && a.lagging():
		return classLagging
	default:
		return a.class
	}
}

// nextDeadline is when the next sleeper or timer is due, and whether there is one. A background timer that has fired since
// something last changed is passed over: it would find what it found then.
func (s *Stepped) nextDeadline() (time.Time, bool) {
	var next earliest
	for _, t := range s.timers {
		if !t.background || t.changesSeen < s.changes {
			next.consider(t.deadline)
		}
	}
	for _, a := range s.tasks {
		if a.state == stateSleeping || a.state == stateWaiting && !a.wakeAt.IsZero() {
			next.consider(a.wakeAt)
		}
	}
	return next.at, next.found
}

// advance moves the clock to the next sleeper or timer. It returns false where there is none.
func (s *Stepped) advance() bool {
	at, found := s.nextDeadline()
	if found {
		s.SetTime(at)
	}
	return found
}

// earliest is the first of some times.
type earliest struct {
	at    time.Time
	found bool
}

func (e *earliest) consider(t time.Time) {
	if !e.found || t.Before(e.at) {
		e.at, e.found = t, true
	}
}

// SetTime moves the clock forward to t: timers and sleepers up to then become ready. It never moves it back.
func (s *Stepped) SetTime(t time.Time) {
	if t.After(s.Now()) {
		s.now.Store(int64(t.Sub(Epoch)))
	}
	for _, t := range s.timers {
		s.touch(t.process)
	}
	for _, a := range s.tasks {
		if a.state == stateSleeping || a.state == stateWaiting {
			s.touch(a.process)
		}
	}
}

func (s *Stepped) add(a *Task) {
	s.nextID++
	a.id = s.nextID
	s.tasks = append(s.tasks, a)
	a.process.tasks = append(a.process.tasks, a)
	s.touch(a.process)
}

// remove lets an actor go.
func (s *Stepped) remove(a *Task) {
	is := func(b *Task) bool { return a == b }
	s.tasks = slices.DeleteFunc(s.tasks, is)
	a.process.tasks = slices.DeleteFunc(a.process.tasks, is)
	s.worldWaiters = slices.DeleteFunc(s.worldWaiters, is)
	if a.slot > 0 {
		s.disable(a)
	}
}

// Enabled names the actors that could be moved now, in the ordinary order; each with what it is about to do, if it is in
// the middle of its work.
func (s *Stepped) Enabled() []string {
	enabled := slices.SortedFunc(slices.Values(s.ready()), compareDefaultOrder)
	names := make([]string, len(enabled))
	for i, a := range enabled {
		names[i] = a.full
		if a.state != stateIdle {
			names[i] += ": " + a.pendingCall.String()
		}
	}
	return names
}

// Tasks names all actors of the world, in the order in which they came.
func (s *Stepped) Tasks() []string {
	names := make([]string, len(s.tasks))
	for i, a := range s.tasks {
		names[i] = a.full
	}
	return names
}

// StepTask makes one step with the named actor ("component/strand"), whatever the strategy would say. It fails when there is
// nothing for it to do now.
func (s *Stepped) StepTask(actor string) error {
	for _, a := range slices.SortedFunc(slices.Values(s.ready()), compareDefaultOrder) {
		if a.full == actor {
			s.steps++
			s.runTask(a)
			return nil
		}
	}
	return fmt.Errorf("move %s: it has nothing to do; what could happen: %s", actor, strings.Join(s.Enabled(), "; "))
}

// Crash ends a component at this moment, as if its process had been killed: each of its strands is unwound at the call at
// which it is suspended, its timers are gone, and nothing of it is moved any more. Calls that have taken effect have taken
// effect. The component is of no use afterwards; a new one may have its name.
func (s *Stepped) Crash(c *Process) {
	was := s.current
	for _, a := range slices.Clone(c.tasks) {
		if a.co != nil {
			s.current = a
			a.co.stop()
			a.co = nil
		}
		a.state = stateDone
		s.remove(a)
	}
	s.current = was
	s.timers = slices.DeleteFunc(s.timers, func(t *Timer) bool { return t.process == c })
	s.touched = slices.DeleteFunc(s.touched, func(t *Process) bool { return t == c })
	c.touched = true // nobody asks it again
}
