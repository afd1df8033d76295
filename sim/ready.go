package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// touch marks the tasks of a process, so that their readiness is checked again.
func (s *Stepped) touch(p *Process) {
	if !p.touched {
		p.touched = true
		s.touched = append(s.touched, p)
	}
}

// wakeTask marks a task, so that its readiness is checked again.
func (s *Stepped) wakeTask(t *Task) {
	if !t.woken && !t.process.touched {
		t.woken = true
		s.woken = append(s.woken, t)
	}
}

// ready returns the tasks that can run now, in no order. It checks only woken tasks, the tasks of
// touched processes and those that wait for a condition on the whole world.
func (s *Stepped) ready() []*Task {
	if observer := s.observer; observer != nil { // what a condition reads is no part of a step
		s.observer = nil
		defer func() { s.observer = observer }()
	}
	for _, t := range s.woken {
		t.woken = false
		s.refresh(t)
	}
	s.woken = s.woken[:0]
	for i := 0; i < len(s.touched); i++ { // the check itself may touch the process again
		c := s.touched[i]
		c.touched = false
		for _, t := range c.tasks {
			s.refresh(t)
		}
	}
	s.touched = s.touched[:0]
	for _, t := range s.worldWaiters {
		s.refresh(t)
	}
	for _, t := range s.watchdogs {
		s.refresh(&t.task)
	}
	return s.enabled
}

// refresh checks the readiness of a task.
func (s *Stepped) refresh(t *Task) {
	switch t.state {
	case stateIdle:
		t.isReady = t.isIdleReady()
		if t.isReady && t.timer != nil && t.timer.missed != nil {
			t.isReady = !s.beatIsDue()
		}
	case stateWaiting:
		t.isReady = (t.signal == nil || t.signaled) && t.cond()
		t.signaled = t.isReady
	}
	switch movable := s.runnable(t); {
	case movable && t.slot == 0:
		s.enabled = append(s.enabled, t)
		t.slot = len(s.enabled)
	case !movable && t.slot > 0:
		s.disable(t)
	}
}

// disable removes a task from those that can run.
func (s *Stepped) disable(t *Task) {
	last := s.enabled[len(s.enabled)-1]
	s.enabled[t.slot-1], last.slot = last, t.slot
	s.enabled = s.enabled[:len(s.enabled)-1]
	t.slot = 0
}

func (s *Stepped) runnable(t *Task) bool {
	switch t.state {
	case stateIdle:
		return t.isReady
	case stateWaiting:
		return t.isReady || !t.wakeAt.IsZero() && !s.Now().Before(t.wakeAt)
	case stateSuspended:
		return true
	case stateSleeping:
		return !s.Now().Before(t.wakeAt)
	default:
		return false
	}
}

// currentClass returns the class of the task at the moment: a worker in the middle of its work is
// in flight, a delivery may lag.
func (t *Task) currentClass() class {
	switch {
	case t.class == classWorker && t.state != stateIdle:
		return classInFlight
	case t.source != nil && t.source.Late():
		return classLagging
	default:
		return t.class
	}
}

// nextDeadline returns when the next sleep or timer ends, and whether there is one. It ignores a
// background timer that has fired since the last change: its next run would find the same state. A
// heartbeat counts only if time passes anyway. So does a watchdog whose heartbeats continue.
func (s *Stepped) nextDeadline() (time.Time, bool) {
	var next earliest
	for _, t := range s.timers {
		if !t.heartbeat && (!t.background || t.changesSeen < s.changes) {
			next.consider(t.deadline)
		}
	}
	for _, t := range s.timers {
		if t.missed == nil {
			continue
		}
		if at, found := t.missed(s.beats); found {
			next.consider(at)
		}
	}
	for _, a := range s.tasks {
		if a.state == stateSleeping || a.state == stateWaiting && !a.wakeAt.IsZero() {
			next.consider(a.wakeAt)
		}
	}
	for _, t := range s.timers {
		if t.heartbeat && next.found {
			next.consider(t.deadline)
		}
	}
	return next.at, next.found
}

// beats reports whether a process has a heartbeat with the key.
func (s *Stepped) beats(key any) bool {
	return slices.ContainsFunc(s.tasks, func(t *Task) bool { return t.beats != nil && t.beats(key) })
}

// beatIsDue reports whether a heartbeat can be made now. One that hangs cannot.
func (s *Stepped) beatIsDue() bool {
	for _, t := range s.timers {
		if t.heartbeat && t.missed == nil && t.due() {
			return true
		}
	}
	return slices.ContainsFunc(s.tasks, func(t *Task) bool {
		return t.beats != nil && (t.state == stateSuspended || t.state == stateIdle && t.isReady)
	})
}

// advance moves the clock to the next deadline. It reports whether there is one.
func (s *Stepped) advance() bool {
	at, found := s.nextDeadline()
	if found {
		s.SetTime(at)
	}
	return found
}

// earliest is the minimum of some times.
type earliest struct {
	at    time.Time
	found bool
}

func (e *earliest) consider(t time.Time) {
	if !e.found || t.Before(e.at) {
		e.at, e.found = t, true
	}
}

// SetTime advances the clock to t: timers and sleeps up to then become ready. It never moves the
// clock back.
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

func (s *Stepped) taskName(process, task string) string { return s.pool.taskName(process, task) }

func (s *Stepped) add(t *Task) {
	s.nextID++
	t.id = s.nextID
	s.tasks = append(s.tasks, t)
	if t.process.tasks == nil {
		t.process.tasks = make([]*Task, 0, tasksMin)
	}
	t.process.tasks = append(t.process.tasks, t)
	s.touch(t.process)
}

// tasksMin is the capacity of the tasks of a process with its first one. A controller has a task for
// each cache, and a worker and a timer for each queue.
const tasksMin = 8

// remove removes a task that has ended.
func (s *Stepped) remove(t *Task) {
	isTask := func(other *Task) bool { return other == t }
	s.tasks = slices.DeleteFunc(s.tasks, isTask)
	t.process.tasks = slices.DeleteFunc(t.process.tasks, isTask)
	s.worldWaiters = slices.DeleteFunc(s.worldWaiters, isTask)
	if t.slot > 0 {
		s.disable(t)
	}
}

// Enabled returns the names of the tasks that can run now, in the default order. A task in the
// middle of its work is followed by ": " and its pending action.
func (s *Stepped) Enabled() []string {
	enabled := slices.SortedFunc(slices.Values(s.ready()), compareDefaultOrder)
	names := make([]string, len(enabled))
	for i, t := range enabled {
		names[i] = t.full
		if t.state != stateIdle {
			names[i] += ": " + t.pendingCall.String()
		}
	}
	return names
}

// Tasks returns the names of all tasks of the world, in the order of registration.
func (s *Stepped) Tasks() []string {
	names := make([]string, len(s.tasks))
	for i, t := range s.tasks {
		names[i] = t.full
	}
	return names
}

// StepTask makes one step with the named task ("process/task"), whatever the strategy would choose.
// It fails if the task cannot run now.
func (s *Stepped) StepTask(task string) error {
	for _, t := range slices.SortedFunc(slices.Values(s.ready()), compareDefaultOrder) {
		if t.full == task {
			s.steps++
			s.guard.own()
			s.runTask(t)
			return nil
		}
	}
	return fmt.Errorf("task %q cannot run now (runnable: %s)", task, strings.Join(s.Enabled(), "; "))
}

// Crash ends a process now, as if it had been killed. Each of its tasks is unwound at the call at
// which it is suspended, its timers are removed, and none of its tasks runs again. Calls that have
// taken effect are not undone. The process is unusable afterwards; a new one may have its name.
func (s *Stepped) Crash(p *Process) {
	previous := s.current
	for _, a := range slices.Clone(p.tasks) {
		if a.co != nil {
			s.current = a
			running := s.guard.enter(a.co.id)
			a.co.stop()
			s.guard.enter(running)
			a.co = nil
		}
		a.state = stateDone
		s.remove(a)
	}
	s.current = previous
	s.timers = slices.DeleteFunc(s.timers, func(t *Timer) bool { return t.process == p })
	s.watchdogs = slices.DeleteFunc(s.watchdogs, func(t *Timer) bool { return t.process == p })
	s.touched = slices.DeleteFunc(s.touched, func(t *Process) bool { return t == p })
	p.touched, p.dead = true, true // never checked again
	p.crashed()
}
