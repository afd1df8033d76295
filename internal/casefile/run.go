package casefile

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A World interprets the cases of one controller.
type World interface {
	// SetUp executes a paragraph of the setup that is not a fault or a trigger; see Run.Script.
	SetUp(p *Paragraph) error
	// Start starts the controller after the setup and runs it until its caches are filled.
	Start() error
	// Step executes a step and returns its outcomes. quiet means that they are not recorded,
	// because the next step comes before the controller runs.
	Step(s *Step, quiet bool) ([]Section, error)
	// Do executes an act of another program at once.
	Do(act string) error
	// Request returns the name of a request in the cases.
	Request(a trace.Action) string
	// Fault returns the error for the text of a fault.
	Fault(request, text string) error
}

// A Run is one execution of a case on a stepped host. A World embeds it.
type Run struct {
	Host    *sim.Stepped
	Process *sim.Process // of the controller
	Outcome Outcome
	OnStep  func(task string) // called after each step of StepWhile; may be nil

	world    World
	faults   []*fault
	triggers []*trigger
	events   []string
	records  int           // number of records returned by NewRecords
	since    time.Duration // time of the last call of NewRecords
}

// Execute executes the paragraphs of a case in a world. advance lists the verbs of the steps in
// which the controller runs. Errors contain the position.
func (r *Run) Execute(f *File, c *Case, w World, advance ...string) error {
	r.world = w
	for _, p := range slices.Concat(f.Always, c.Setup) {
		if r.Script(p) {
			continue
		}
		if err := w.SetUp(p); err != nil {
			return fmt.Errorf("%s: %w", p.At, err)
		}
	}
	if err := w.Start(); err != nil {
		return err
	}
	r.records = r.Host.Log().Len()
	for i, s := range c.Steps {
		verb, _, _ := strings.Cut(s.Act.Head, " ")
		sections, err := w.Step(s, i+1 < len(c.Steps) && !slices.Contains(advance, verb))
		if err != nil {
			return fmt.Errorf("%s: %w", s.Act.At, err)
		}
		r.Outcome.Steps = append(r.Outcome.Steps, sections)
	}
	r.checkScript()
	return nil
}

// Problem adds a problem to the outcome.
func (r *Run) Problem(format string, args ...any) {
	r.Outcome.Problems = append(r.Outcome.Problems, fmt.Sprintf(format, args...))
}

// StepWhile runs steps of the matching tasks, in the default order, until none of them is runnable.
func (r *Run) StepWhile(match func(task string) bool) {
	for range 1000 {
		runnable := r.Host.Enabled()
		i := slices.IndexFunc(runnable, match)
		if i < 0 {
			return
		}
		task, _, _ := strings.Cut(runnable[i], ": ")
		if err := r.Host.StepTask(task); err != nil {
			panic(err)
		}
		if r.OnStep != nil {
			r.OnStep(task)
		}
	}
	r.Problem("no end after 1000 steps")
}

// NewRecords returns the records since the previous call. Each has a prefix with its time after
// that call, such as "after 5s: ", or "".
func (r *Run) NewRecords() iter.Seq2[string, trace.Record] {
	records, since := r.Host.Log().Records()[r.records:], r.since
	r.records, r.since = r.records+len(records), r.Host.Now().Sub(sim.Epoch)
	return func(yield func(string, trace.Record) bool) {
		for _, record := range records {
			after := ""
			if d := record.At - since; d > 0 {
				after = fmt.Sprintf("after %s: ", d)
			}
			if !yield(after, record) {
				return
			}
		}
	}
}

// Select returns the sections that have lines. Those whose heads are in onRequest it returns if and
// only if the step has them recorded.
func (s *Step) Select(sections []Section, onRequest ...string) []Section {
	return slices.DeleteFunc(sections, func(section Section) bool {
		if slices.Contains(onRequest, section.Head) {
			return !slices.Contains(s.Outcomes, section.Head)
		}
		return len(section.Lines) == 0
	})
}

// AddEvent adds an event of the controller.
func (r *Run) AddEvent(line string) {
	r.events = append(r.events, line)
	r.Process.Record(trace.Action{Kind: trace.KindWork, Verb: "tell", Object: line}, trace.Outcome{})
}

// TakeEvents returns the events since the previous call.
func (r *Run) TakeEvents() []string {
	events := r.events
	r.events = nil
	return events
}

// A Recorder is an event recorder that calls itself for each event.
type Recorder func(object runtime.Object, eventType, reason, message string)

// Event calls the recorder.
func (f Recorder) Event(object runtime.Object, eventType, reason, message string) {
	f(object, eventType, reason, message)
}

// Eventf is Event with a formatted message.
func (f Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	f(object, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf is Eventf. It ignores the annotations.
func (f Recorder) AnnotatedEventf(
	object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any,
) {
	f(object, eventType, reason, fmt.Sprintf(format, args...))
}
