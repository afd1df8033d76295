package main

import (
	"fmt"
	"io"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/trace"
)

// aheadMax is how many lines wait for the terminal.
const aheadMax = 10_000

// teller prints what controllers do, on a goroutine of its own. Who acts never waits for the terminal: what it does not
// take is counted.
type teller struct {
	out, errs io.Writer
	all       bool // not only what went wrong
	lines     chan told
	done      chan struct{}

	mu     sync.Mutex
	missed int  // guarded by mu: lines that found no room
	ended  bool // guarded by mu
}

// told is one line.
type told struct {
	text  string
	wrong bool
}

func newTeller(out, errs io.Writer, all bool) *teller {
	t := &teller{out: out, errs: errs, all: all, lines: make(chan told, aheadMax), done: make(chan struct{})}
	go t.print()
	return t
}

func (t *teller) print() {
	defer close(t.done)
	for line := range t.lines {
		if line.wrong {
			fmt.Fprintln(t.errs, "volsim:", line.text)
		} else {
			fmt.Fprintln(t.out, line.text)
		}
	}
}

func (t *teller) put(line told) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if t.missed > 0 {
		select {
		case t.lines <- told{text: fmt.Sprintf("%d lines were left out", t.missed)}:
			t.missed = 0
		default:
		}
	}
	select {
	case t.lines <- line:
	default:
		t.missed++
	}
}

func (t *teller) say(format string, args ...any) { t.put(told{text: fmt.Sprintf(format, args...)}) }

// warn tells what is wrong.
func (t *teller) warn(format string, args ...any) {
	t.put(told{text: fmt.Sprintf(format, args...), wrong: true})
}

// record tells of an action: all of it, or only that it failed.
func (t *teller) record(r trace.Record) {
	switch {
	case t.all:
		t.say("%s", r)
	case r.Err != nil && !ordinary(r.Err):
		t.warn("%s: %s %s: %v", component(r.Actor), action(r), r.Object, r.Err)
	}
}

// action is what failed, in words.
func action(r trace.Record) string {
	if r.Kind == trace.KindDeliver {
		return "list and watch"
	}
	return r.Verb
}

// ordinary tells whether an error is part of the ordinary course: somebody else was faster.
func ordinary(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)
}

// close returns when all is printed. What is said afterwards is not.
func (t *teller) close() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	close(t.lines)
	<-t.done
}
