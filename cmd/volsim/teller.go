package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/sim/trace"
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
	missed int                  // guarded by mu: lines that found no room
	ended  bool                 // guarded by mu
	step   int                  // guarded by mu: of the record that was told last
	ahead  map[int]trace.Record // guarded by mu: by step, those that came before their turn
}

// told is one line.
type told struct {
	text  string
	wrong bool
}

func newTeller(out, errs io.Writer, all bool) *teller {
	t := &teller{out: out, errs: errs, all: all, lines: make(chan told, aheadMax), done: make(chan struct{}), ahead: map[int]trace.Record{}}
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

// put is called with mu held.
func (t *teller) put(line told) {
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

func (t *teller) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(told{text: fmt.Sprintf(format, args...)})
}

// warn tells what is wrong.
func (t *teller) warn(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(told{text: fmt.Sprintf(format, args...), wrong: true})
}

// record tells of an action, in the order of the log: the log calls it for several at once.
func (t *teller) record(r trace.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ahead[r.Step] = r
	for {
		next, ok := t.ahead[t.step+1]
		if !ok {
			return
		}
		t.step++
		delete(t.ahead, t.step)
		if line, ok := t.words(next); ok {
			t.put(line)
		}
	}
}

// words tell all of an action, or what it means, or only that it failed.
func (t *teller) words(r trace.Record) (told, bool) {
	if t.all {
		return told{text: r.String()}, true
	}
	if r.Err != nil && !ordinary(r.Err) {
		return told{text: fmt.Sprintf("%s: %s %s: %v", component(r.Actor), action(r), r.Object, r.Err), wrong: true}, true
	}
	words, ok := trace.Tell(r)
	return told{text: fmt.Sprintf("%-15s %s", component(r.Actor), words)}, ok
}

// action is what failed, in words.
func action(r trace.Record) string {
	if r.Kind == trace.KindDeliver {
		return "list and watch"
	}
	return r.Verb
}

// ordinary tells whether an error is part of the ordinary course: somebody else was faster, or the process ends before the
// request was sent.
func ordinary(err error) bool {
	return errors.Is(err, context.Canceled) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)
}

// close returns when all is printed. What is said afterwards is not.
func (t *teller) close() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	close(t.lines)
	<-t.done
}
