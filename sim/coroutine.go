package sim

import (
	"iter"
	"runtime/debug"

	"github.com/volsim/volsim/internal/goroutine"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// A Pool holds what the worlds of one search share: coroutines, so that the next host need not create
// them or grow their stacks again, logs that are given to it, the names of tasks, and memory. The zero
// value is empty. It is for one goroutine. Close it, or the coroutines stay in memory.
type Pool struct {
	// Memory says that hosts use the memory of those that were closed, for the processes that allow it
	// by Process.ReuseMemory. Of a closed world only the log and the API server may then be used.
	Memory bool

	free    []*coroutine
	memory  *reuse.Memory            // of a closed host; nil: none
	log     *trace.Log               // empty; nil: none
	names   map[taskInProcess]string // full names of tasks
	looks   int                      // number of looks for goroutines that outlive their task
	counted int                      // number of works around which goroutines were counted
}

// Close ends the coroutines and empties the pool.
func (p *Pool) Close() {
	for _, co := range p.free {
		co.stop()
	}
	p.free = nil
}

// Reuse gives the log of a closed host to the next host without one. The log must no longer be used.
func (p *Pool) Reuse(log *trace.Log) {
	log.Reset()
	p.log = log
}

// A taskInProcess is a task by the names of its process and of its own.
type taskInProcess struct{ process, task string }

// namesMax bounds the names that a pool keeps.
const namesMax = 4096

// taskName returns the full name of a task. Worlds of one pool have the same tasks.
func (p *Pool) taskName(process, task string) string {
	key := taskInProcess{process, task}
	name, ok := p.names[key]
	if ok {
		return name
	}
	if p.names == nil || len(p.names) >= namesMax {
		p.names = map[taskInProcess]string{}
	}
	name = fullName(process, task)
	p.names[key] = name
	return name
}

func (p *Pool) get() *coroutine {
	if n := len(p.free); n > 0 {
		co := p.free[n-1]
		p.free = p.free[:n-1]
		return co
	}
	return newCoroutine()
}

func (p *Pool) put(co *coroutine) {
	co.work = nil
	p.free = append(p.free, co)
}

// A coroutine runs pieces of work one after the other, each of which may suspend anywhere. An idle
// coroutine can be given to another task: a world needs as many as it has tasks in flight at once.
type coroutine struct {
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	work   func()
	idle   bool    // the work has ended
	id     uintptr // of its goroutine
	number int     // of its goroutine in stack traces
	stack  string  // stack of a panic in the work; the panic continues in the host, whose own stack does not show it
}

// newCoroutine returns an idle coroutine.
func newCoroutine() *coroutine {
	co := &coroutine{}
	co.next, co.stop = iter.Pull(func(yield func(struct{}) bool) {
		co.number = goroutine.Number()
		taskGoroutines.Store(co.number, nil)
		coroutines.Add(1)
		defer func() {
			taskGoroutines.Delete(co.number)
			coroutines.Add(-1)
		}()
		defer co.recoverUnwound()
		co.yield, co.id = yield, goroutine.ID()
		for yield(struct{}{}) {
			co.work()
			co.idle = true
		}
	})
	co.next()
	return co
}

// start runs work until it ends or suspends.
func (co *coroutine) start(work func()) {
	co.work, co.idle = work, false
	co.next()
}

// suspend returns control to the host. It is called from within the work.
func (co *coroutine) suspend() {
	if co.yield == nil || !co.yield(struct{}{}) {
		co.yield = nil // a deferred call that suspends while unwinding unwinds at once
		panic(unwound{})
	}
}

// recoverUnwound stops an unwinding. It keeps the stack of any other panic, which continues.
func (co *coroutine) recoverUnwound() {
	switch r := recover().(type) {
	case nil, unwound:
	default:
		co.stack = string(debug.Stack())
		panic(r)
	}
}
