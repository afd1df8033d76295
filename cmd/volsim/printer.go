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

// queuedLinesMax is how many lines wait for the terminal.
const queuedLinesMax = 10_000

// printer prints what controllers do, on a goroutine of its own. Who acts never waits for the terminal: what it does not
// take is counted.
type printer struct {
	out, errs io.Writer
	all       bool // not only what went wrong
	lines     chan message
	done      chan struct{}

	mu      sync.Mutex
	dropped int                  // guarded by mu: lines that found no room
	ended   bool                 // guarded by mu
	step    int                  // guarded by mu: of the record that was told last
	early   map[int]trace.Record // guarded by mu: by step, those that came before their turn
}

// message is one line.
type message struct {
	text    string
	isError bool
}

func newPrinter(out, errs io.Writer, all bool) *printer {
	t := &printer{out: out, errs: errs, all: all, lines: make(chan message, queuedLinesMax), done: make(chan struct{}), early: map[int]trace.Record{}}
	go t.print()
	return t
}

func (t *printer) print() {
	defer close(t.done)
	for line := range t.lines {
		if line.isError {
			fmt.Fprintln(t.errs, "volsim:", line.text)
		} else {
			fmt.Fprintln(t.out, line.text)
		}
	}
}

// put is called with mu held.
func (t *printer) put(line message) {
	if t.ended {
		return
	}
	if t.dropped > 0 {
		select {
		case t.lines <- message{text: fmt.Sprintf("%d lines were left out", t.dropped)}:
			t.dropped = 0
		default:
		}
	}
	select {
	case t.lines <- line:
	default:
		t.dropped++
	}
}

func (t *printer) info(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(message{text: fmt.Sprintf(format, args...)})
}

// warn tells what is wrong.
func (t *printer) warn(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(message{text: fmt.Sprintf(format, args...), isError: true})
}

// record tells of an action, in the order of the log: the log calls it for several at once.
func (t *printer) record(r trace.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.early[r.Step] = r
	for {
		next, ok := t.early[t.step+1]
		if !ok {
			return
		}
		t.step++
		delete(t.early, t.step)
		if line, ok := t.message(next); ok {
			t.put(line)
		}
	}
}

// message tell all of an action, or what it means, or only that it failed.
func (t *printer) message(r trace.Record) (message, bool) {
	if t.all {
		return message{text: r.String()}, true
	}
	if r.Err != nil && !isExpected(r.Err) {
		return message{text: fmt.Sprintf("%s: %s %s: %v", processOf(r.Task), failedAction(r), r.Object, r.Err), isError: true}, true
	}
	words, ok := trace.Describe(r)
	return message{text: fmt.Sprintf("%-15s %s", processOf(r.Task), words)}, ok
}

// failedAction is what failed, in words.
func failedAction(r trace.Record) string {
	if r.Kind == trace.KindDeliver {
		return "list and watch"
	}
	return r.Verb
}

// isExpected tells whether an error is part of the ordinary course: somebody else was faster, or the process ends before the
// request was sent.
func isExpected(err error) bool {
	return errors.Is(err, context.Canceled) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)
}

// close returns when all is printed. What is said afterwards is not.
func (t *printer) close() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	close(t.lines)
	<-t.done
}
