package sim

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/volsim/volsim/internal/goroutine"
	"github.com/volsim/volsim/sim/trace"
)

// A guard refuses the calls of stray goroutines: those that neither run a stepped host nor are a
// task of it. Such a call would happen at any time. The methods of a guard that begin with "check"
// may be called by any goroutine.
//
// A goroutine that runs the host or a task of it is recognized by its ID alone. Any other one pays
// for a look at its stack.
type guard struct {
	owner   atomic.Uintptr // the goroutine that runs the host, or is using it between two runs
	task    atomic.Uintptr // the goroutine of the task that ran last
	running atomic.Uintptr // the goroutine that is in Run or Wait; 0: none
	closed  atomic.Bool    // the host was closed
	failed  atomic.Bool    // a call was refused

	mu  sync.Mutex
	err error // guarded by mu: of the first refused call
}

// taskGoroutines are the numbers of the goroutines that run tasks, in all worlds.
var taskGoroutines sync.Map

// own makes the calling goroutine the one that runs the host.
func (g *guard) own() { set(&g.owner, goroutine.ID()) }

// enter is called before a coroutine is continued. It returns the previous one.
func (g *guard) enter(co uintptr) (previous uintptr) {
	previous = g.task.Load()
	set(&g.task, co)
	return previous
}

// set stores a value. A store is more expensive than a load.
func set(a *atomic.Uintptr, to uintptr) {
	if a.Load() != to {
		a.Store(to)
	}
}

// run says that the calling goroutine runs the host until done is called.
func (g *guard) run() (done func()) {
	g.own()
	previous := g.running.Swap(goroutine.ID())
	return func() { g.running.Store(previous) }
}

// check returns the error of a call that the calling goroutine must not make. p is nil for a caller
// outside all processes.
func (g *guard) check(p *Process, action trace.Action) error {
	if id := goroutine.ID(); id == g.task.Load() || id == g.owner.Load() {
		return nil
	}
	return g.checkStray(p, action)
}

// checkStray is check for another goroutine than the one of the host and the one of the last task.
func (g *guard) checkStray(p *Process, action trace.Action) error {
	if g.closed.Load() {
		if p == nil {
			return nil
		}
		return fmt.Errorf("%s %s: %w", action.Verb, action.Object, errHostClosed)
	}
	stack := goroutine.Stack()
	origin, _ := goroutine.OriginOf(stack)
	_, ofTask := taskGoroutines.Load(origin.Parent)
	remedy := remedyOf(stack)
	switch {
	case ofTask, remedy != "", g.running.Load() != 0:
	case p != nil && descendsFromTask(origin):
	default: // another goroutine of the test, between two runs
		g.own()
		return nil
	}
	err := fmt.Errorf("%s %s: %s", action.Verb, action.Object, strayText(p, origin, ofTask, remedy))
	g.fail(err)
	return err
}

// fail makes the run fail.
func (g *guard) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		g.failed.Store(true)
	}
}

// strayText says what is wrong with a goroutine, and what to do.
func strayText(p *Process, origin goroutine.Origin, ofTask bool, remedy string) string {
	switch {
	case remedy != "" && !ofTask:
		return remedy
	case p != nil:
		return fmt.Sprintf("the call was made by a goroutine that component %s started in %s; "+
			"a stepped world runs one task at a time: make the call in the reconciler itself, "+
			"or run this code with simtest.Bubble", p.name, origin)
	case ofTask:
		return fmt.Sprintf("the call was made by a goroutine that a user of the world started in %s; "+
			"a stepped world runs one task at a time: make the call in the user's script itself, "+
			"or run this code with simtest.Bubble", origin)
	default:
		return fmt.Sprintf("the call was made by a goroutine, started in %s, while another one runs the stepped world: "+
			"make the call in a User of the cluster, or run this code with simtest.Bubble", origin)
	}
}

// remedies say what to use instead of code that only works with goroutines of its own. The key is
// part of a stack trace of such a goroutine.
var remedies = []struct{ frame, text string }{
	{"sigs.k8s.io/controller-runtime/pkg/manager.", managerRemedy},
	{"sigs.k8s.io/controller-runtime/pkg/cache/internal.", managerRemedy},
	{"sigs.k8s.io/controller-runtime/pkg/internal/controller.", managerRemedy},
	{"sigs.k8s.io/controller-runtime/pkg/internal/source.", managerRemedy},
	{"k8s.io/client-go/tools/cache.(*Reflector).", "an informer of client-go was started in a stepped world: " +
		"use the Informers of a cluster.Component, or run this code with simtest.Bubble"},
	{"k8s.io/client-go/tools/leaderelection.", "a leader election was started in a stepped world: " +
		"start the component without one; Cluster.Replicate runs a second process of it"},
}

const managerRemedy = "a controller-runtime manager was started in a stepped world: use ctrlruntime.Component " +
	"of module github.com/volsim/volsim/ctrlruntime, or run this code with simtest.Bubble"

func remedyOf(stack string) string {
	for _, r := range remedies {
		if strings.Contains(stack, r.frame) {
			return r.text
		}
	}
	return ""
}

// descendsFromTask reports whether a task started the goroutine that started this one, or an
// earlier one, as far as they still run.
func descendsFromTask(origin goroutine.Origin) bool {
	parents := map[int]int{}
	for stack := range strings.SplitSeq(goroutine.Stacks(), "\n\n") {
		var number int
		if _, err := fmt.Sscanf(stack, "goroutine %d ", &number); err != nil {
			continue
		}
		if o, ok := goroutine.OriginOf(stack); ok {
			parents[number] = o.Parent
		}
	}
	for n := origin.Parent; n != 0; n = parents[n] {
		if _, ofTask := taskGoroutines.Load(n); ofTask {
			return true
		}
	}
	return false
}

// Err returns the error of the first call that a goroutine made that is not a task, nil if there was
// none. The host makes no step after such a call. Err may be called from anywhere, at any time.
func (s *Stepped) Err() error {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return s.guard.err
}

// CheckTask returns an error if the calling goroutine must not perform an action in the process,
// and makes the run fail. Call does so itself. CheckTask is for what a task does without a call,
// such as reading a cache.
func (p *Process) CheckTask(action trace.Action) error { return p.host.check(p, action) }

// check implements engine.
func (s *Stepped) check(p *Process, action trace.Action) error { return s.guard.check(p, action) }

// check implements engine. The tasks of a live process may start goroutines.
func (*Live) check(*Process, trace.Action) error { return nil }

// errHostClosed is the error of a write from outside after Close.
var errHostClosed = errors.New("host closed")
