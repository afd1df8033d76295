package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim/trace"
)

// lineDelay is the pause after each line with --slow.
const lineDelay = 400 * time.Millisecond

// A narrator prints what happens, in order, on its own goroutine, so the cluster never waits for
// the terminal.
type narrator struct {
	ctx   context.Context //nolint:containedctx // ends the pauses
	out   io.Writer
	width int // of the terminal, in columns
	json  bool
	slow  bool
	lines chan line
	done  chan struct{}

	mu    sync.Mutex
	ended bool // guarded by mu: later records are not printed
}

// A line is one thing to print.
type line struct {
	record  *trace.Record
	process string
	text    string
	why     string // of a chapter
	chapter bool
	summary *summary
	drained chan struct{} // closed after all earlier lines are printed
}

func newNarrator(ctx context.Context, out io.Writer, asJSON, slow bool) *narrator {
	const ahead = 10_000 // more lines than a demo prints
	n := &narrator{ctx: ctx, out: out, width: textWidth(out), json: asJSON, slow: slow, lines: make(chan line, ahead), done: make(chan struct{})}
	go n.print()
	return n
}

func (n *narrator) note(process, text string) { n.lines <- line{process: process, text: text} }
func (n *narrator) summary(s summary)         { n.lines <- line{summary: &s} }

// chapter begins a chapter. A sentence says why it happens.
func (n *narrator) chapter(title, why string) {
	n.lines <- line{text: title, why: why, chapter: true}
}

func (n *narrator) record(r trace.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ended {
		n.lines <- line{record: &r}
	}
}

// end stops printing records; the cluster is shutting down.
func (n *narrator) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
}

// drain returns after all earlier lines are printed.
func (n *narrator) drain() {
	drained := make(chan struct{})
	n.lines <- line{drained: drained}
	<-drained
}

// close returns after all lines are printed. The narrator must not be used afterwards.
func (n *narrator) close() {
	close(n.lines)
	<-n.done
}

func (n *narrator) print() {
	defer close(n.done)
	for l := range n.lines {
		if l.drained != nil {
			close(l.drained)
			continue
		}
		if n.json {
			n.printJSON(l)
		} else if !n.printText(l) {
			continue
		}
		if n.slow && n.ctx.Err() == nil {
			select {
			case <-time.After(lineDelay):
			case <-n.ctx.Done():
			}
		}
	}
}

// printText prints a line and reports whether there was anything to print.
func (n *narrator) printText(l line) bool {
	switch {
	case l.summary != nil:
		fmt.Fprint(n.out, "\n", wrap(l.summary.String(), n.width, 0), "\n")
	case l.chapter:
		fmt.Fprint(n.out, "\n", wrap(l.text, n.width, 0), "\n", wrap("  "+l.why, n.width, 2), "\n\n")
	case l.record != nil:
		words, ok := trace.Describe(*l.record)
		if !ok {
			return false
		}
		n.printLine(milliseconds(l.record.At), processOf(l.record.Task), oneLine(words)+formatTook(l.record.Took))
	default:
		n.printLine("", l.process, oneLine(l.text))
	}
	return true
}

// printLine prints what a process does. Continuation lines begin below the text.
func (n *narrator) printLine(at, process, text string) {
	head := fmt.Sprintf("  %8s  %-18s ", at, process)
	fmt.Fprintln(n.out, wrap(head+text, n.width, len(head)))
}

// formatTook formats a duration, or returns "" if it is too short to matter.
func formatTook(d time.Duration) string {
	if d < 100*time.Microsecond {
		return ""
	}
	return " (" + milliseconds(d) + ")"
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// processOf returns the process of a task.
func processOf(task string) string {
	name, _, _ := strings.Cut(task, "/")
	return name
}

// An event is one line of --json.
type event struct {
	Event       string   `json:"event"` // chapter, action, note or summary
	Step        int      `json:"step,omitempty"`
	AtMS        float64  `json:"at_ms,omitempty"`
	TookMS      float64  `json:"took_ms,omitempty"`
	Task        string   `json:"task,omitempty"`
	Kind        string   `json:"kind,omitempty"`
	Verb        string   `json:"verb,omitempty"`
	Object      string   `json:"object,omitempty"`
	Result      string   `json:"result,omitempty"`
	Description string   `json:"description,omitempty"`
	Why         string   `json:"why,omitempty"` // of a chapter
	Summary     *summary `json:"summary,omitempty"`
}

func (n *narrator) printJSON(l line) {
	e := event{Event: "note", Task: l.process, Description: l.text}
	switch {
	case l.summary != nil:
		e = event{Event: "summary", Summary: l.summary}
	case l.chapter:
		e = event{Event: "chapter", Description: l.text, Why: l.why}
	case l.record != nil:
		r := *l.record
		words, _ := trace.Describe(r)
		e = event{
			Event: "action", Step: r.Step, AtMS: float64(r.At.Microseconds()) / 1000, TookMS: float64(r.Took.Microseconds()) / 1000,
			Task: r.Task, Kind: string(r.Kind), Verb: r.Verb, Object: r.Object, Result: r.Result(), Description: words,
		}
	}
	_ = json.NewEncoder(n.out).Encode(e) // a failed write ends the demo
}

// A summary counts the actions of a demo.
type summary struct {
	Devices     string  `json:"devices"`
	Writes      int     `json:"api_writes"`
	Reads       int     `json:"api_reads"`
	Conflicts   int     `json:"conflicts"`
	DriverCalls int     `json:"driver_calls"`
	Failed      int     `json:"driver_calls_failed"`
	ElapsedMS   float64 `json:"elapsed_ms"`
}

// String returns the summary as text.
func (s summary) String() string {
	conflicts := "no conflicts"
	if s.Conflicts > 0 {
		conflicts = fmt.Sprintf("%d conflicts retried", s.Conflicts)
	}
	failed := ""
	if s.Failed > 0 {
		failed = fmt.Sprintf(" (%d failed and were retried)", s.Failed)
	}
	return fmt.Sprintf("%d API writes, %s, %d reads, %d driver calls%s on %s devices, %.0f ms. No leaks.",
		s.Writes, conflicts, s.Reads, s.DriverCalls, failed, s.Devices, s.ElapsedMS)
}

func (s *demoRun) summary(kind cluster.Devices, elapsed time.Duration) summary {
	sum := summary{Devices: string(kind), ElapsedMS: float64(elapsed.Microseconds()) / 1000}
	for _, r := range s.cluster.Trace().Records() {
		verb, _, _ := strings.Cut(r.Verb, "/")
		switch {
		case r.Kind == trace.KindDriver:
			sum.DriverCalls++
			if r.Err != nil {
				sum.Failed++
			}
		case r.Kind != trace.KindAPI:
		case apierrors.IsConflict(r.Err):
			sum.Conflicts++
		case verb == "get" || verb == "list" || verb == "watch":
			sum.Reads++
		default:
			sum.Writes++
		}
	}
	return sum
}
