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

// queuedLinesMax is how many lines may wait for the terminal.
const queuedLinesMax = 10_000

// A printer prints what controllers do, on its own goroutine. Controllers never wait for the
// terminal: lines that do not fit the queue are dropped and counted.
type printer struct {
	out, errs io.Writer
	all       bool // print every record, not only errors and changes
	lines     chan message
	done      chan struct{}

	mu      sync.Mutex
	dropped int                  // guarded by mu: lines that found the queue full
	ended   bool                 // guarded by mu
	step    int                  // guarded by mu: step of the last printed record
	early   map[int]trace.Record // guarded by mu: records, by step, that arrived before an earlier one
}

// A message is one line of output.
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

// put queues a line. mu must be held.
func (t *printer) put(line message) {
	if t.ended {
		return
	}
	line.text = oneLine(line.text)
	if t.dropped > 0 {
		select {
		case t.lines <- message{text: fmt.Sprintf("%d lines dropped", t.dropped)}:
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

// info prints a line to standard output.
func (t *printer) info(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(message{text: fmt.Sprintf(format, args...)})
}

// warn prints a line to standard error.
func (t *printer) warn(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(message{text: fmt.Sprintf(format, args...), isError: true})
}

// record prints an action. The log calls it concurrently; the printer restores the order of the
// log.
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

// message describes an action: in full, by what it means for a volume, or only by its failure.
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

// failedAction names the action that failed.
func failedAction(r trace.Record) string {
	if r.Kind == trace.KindDeliver {
		return "list and watch"
	}
	return r.Verb
}

// isExpected reports whether an error belongs to normal operation: another writer was faster, or
// the process stopped before the request was sent.
func isExpected(err error) bool {
	return errors.Is(err, context.Canceled) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)
}

// close returns after all lines are printed. Later lines are discarded.
func (t *printer) close() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	close(t.lines)
	<-t.done
}
