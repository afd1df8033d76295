package sim

import (
	"slices"

	"github.com/volsim/volsim/internal/goroutine"
)

// A sleeper is a task of the live host that may have to wait until it is ready. It is woken when it
// is ready, not when it may be: a task that releases the monitor checks the sleepers, since
// readiness depends on state of the process or is announced by Wake.
type sleeper struct {
	ready      func() bool   // called in the monitor
	inlineTask *Task         // a task that never suspends, which the holder of the monitor may run; nil: none
	token      chan struct{} // present when the sleeper must check again; holds at most one
	asleep     bool          // in the monitor: not woken since it found that it was not ready
}

func newSleeper(ready func() bool) *sleeper {
	return &sleeper{ready: ready, token: make(chan struct{}, 1)}
}

// wake makes the task check its readiness. It may be called from anywhere.
func (s *sleeper) wake() { putToken(s.token) }

// putToken puts a token where there is none.
func putToken(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// isReady reports whether the task is ready. The caller holds the monitor, and is about to release
// it if not.
func (s *sleeper) isReady() bool {
	s.asleep = !s.ready()
	return !s.asleep
}

func (p *Process) addSleeper(s *sleeper) {
	p.sleepersMu.Lock()
	defer p.sleepersMu.Unlock()
	p.sleepers = append(slices.Clip(p.sleepers), s)
}

func (p *Process) dropSleeper(s *sleeper) {
	p.sleepersMu.Lock()
	defer p.sleepersMu.Unlock()
	p.sleepers = slices.DeleteFunc(slices.Clone(p.sleepers), func(t *sleeper) bool { return s == t })
}

func (p *Process) allSleepers() []*sleeper {
	p.sleepersMu.Lock()
	defer p.sleepersMu.Unlock()
	return p.sleepers
}

// enter takes the monitor for a task.
func (p *Process) enter(task string) {
	p.mu.Lock()
	p.runningTask = task
	p.runner.Store(goroutine.ID())
}

// exit releases the monitor, and wakes nothing.
func (p *Process) exit() {
	p.runner.Store(0)
	p.mu.Unlock()
}

// entered reports whether the calling goroutine holds the monitor.
func (p *Process) entered() bool { return p.runner.Load() == goroutine.ID() }

// leave releases the monitor. Before, it runs the ready tasks that never suspend, which is cheaper
// than switching to another goroutine, and wakes the other ready tasks.
func (l *Live) leave(p *Process) {
	sleepers := p.allSleepers()
	for _, s := range sleepers {
		if s.inlineTask != nil && s.asleep && p.ctx.Err() == nil && s.ready() {
			l.stepFor(s.inlineTask)
		}
	}
	for _, s := range sleepers {
		if s.asleep && s.isReady() {
			s.wake()
		}
	}
	p.exit()
	l.notifyWaits()
}

// stepFor runs a step of a task that never suspends, on behalf of the task that holds the monitor.
func (l *Live) stepFor(t *Task) {
	task := t.process.runningTask
	t.process.runningTask = t.full
	l.runTask(t)
	t.process.runningTask = task
}
