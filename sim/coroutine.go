package sim

import (
	"iter"
	"runtime/debug"
)

// Pool keeps the coroutines of stepped hosts, one after the other, so that the next need not make them, nor grow their
// stacks, again. The zero value is empty. It is for one goroutine. Close it, or they stay in memory.
type Pool struct{ free []*coroutine }

// Close ends the coroutines. The pool is empty then.
func (p *Pool) Close() {
	for _, co := range p.free {
		co.stop()
	}
	p.free = nil
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

// coroutine runs pieces of work one after the other, each of which may be suspended anywhere. An idle coroutine can be
// given to another actor: a world needs as many as it has strands in flight at once.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	work  func()
	idle  bool   // the work is done
	stack string // where it panicked: the panic goes on in the host, whose stack says nothing of it
}

func newCoroutine() *coroutine {
	co := &coroutine{}
	co.next, co.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer co.recoverUnwound()
		co.yield = yield
		for {
			co.work()
			co.idle = true
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return co
}

// start runs work until it ends or is suspended.
func (co *coroutine) start(work func()) {
	co.work, co.idle = work, false
	co.next()
}

// suspend gives the host back its turn; called from within the work.
func (co *coroutine) suspend() {
	if co.yield == nil || !co.yield(struct{}{}) {
		co.yield = nil // a deferred call of the unwinding strand that tries to leave again unwinds at once
		panic(unwound{})
	}
}

// recoverUnwound stops an unwinding, and keeps the stack of any other panic, which goes on.
func (co *coroutine) recoverUnwound() {
	switch r := recover().(type) {
	case nil, unwound:
	default:
		co.stack = string(debug.Stack())
		panic(r)
	}
}
