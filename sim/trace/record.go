package trace

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// Kind is the category of an action.
type Kind string

// The kinds of action.
const (
	KindAPI     Kind = "api"     // a request to the API server
	KindDriver  Kind = "driver"  // a call of a CSI driver or another plugin outside the process
	KindDeliver Kind = "deliver" // a watch event applied to a cache
	KindWork    Kind = "work"    // a worker taking up a key, or a user action
	KindTimer   Kind = "timer"   // a timer firing
	KindSleep   Kind = "sleep"   // a task waking from a sleep
	KindWait    Kind = "wait"    // a task resuming because its condition holds
	KindEvent   Kind = "event"   // an event of the simulation: a crash, a partition
)

// An Action is what a task does: the kind, the verb (an API verb, the name of an RPC) and the
// object. The object has the form "resource/name" or "resource/namespace/name", or is named as the
// kind names its objects. Kind and verb are words without blanks.
type Action struct {
	Kind   Kind
	Verb   string
	Object string
}

// String returns "kind verb object".
func (a Action) String() string {
	if a.Object == "" {
		return string(a.Kind) + " " + a.Verb
	}
	return string(a.Kind) + " " + a.Verb + " " + a.Object
}

// An Outcome is the result of an action.
type Outcome struct {
	Err    error          // nil if the action succeeded
	Detail string         // a few words, such as "rv=12"; never the text of the error
	Before runtime.Object // the stored object before a write; nil for a create. Read-only
	After  runtime.Object // the stored object after a write, or its last state if it was removed. Read-only
	Gone   bool           // the write removed the object from storage
	Read   bool           // the driver call changed nothing
	Lost   bool           // the action took effect, but its response was lost: Err is what the caller got
}

// A Record is one action that took place.
type Record struct {
	Step int           // 1, 2, 3 … in the order of effect
	At   time.Duration // since the world began: virtual time in the stepped host, real time live
	Task string        // "process/task"
	Action
	Outcome
	Took     time.Duration // real duration of the effect; zero in the stepped host; not part of the text
	HostStep int           // step of the stepped host, counted as in its schedule; not part of the text
}

// NumberHostSteps makes the host steps of records increase where the host restarted its count, as
// it does to check a world at rest. It changes the records.
func NumberHostSteps(records []Record) {
	last, before := 0, 0
	for i := range records {
		turn := &records[i].HostStep
		if *turn+before < last {
			before = last
		}
		*turn += before
		last = *turn
	}
}

// Failed reports whether the action returned an error.
func (r Record) Failed() bool { return r.Err != nil }

// String returns the record's line of the log: step, time, task, action and outcome, separated by
// tabs.
func (r Record) String() string {
	var b strings.Builder
	b.Grow(96)
	b.WriteString(strconv.Itoa(r.Step))
	b.WriteByte('\t')
	b.WriteString(r.At.String())
	b.WriteByte('\t')
	b.WriteString(clean(r.Task))
	b.WriteByte('\t')
	b.WriteString(clean(r.Action.String()))
	b.WriteByte('\t')
	b.WriteString(clean(r.Result()))
	return b.String()
}

// Result returns the outcome in one line: the detail and the changes, or the error.
func (r Record) Result() string {
	if r.Err != nil && !r.Lost {
		return "error: " + r.Err.Error()
	}
	done := r.effect()
	if r.Err == nil {
		return done
	}
	if done == "" {
		done = "yes"
	}
	return "error: " + r.Err.Error() + "; took effect: " + done
}

// effect describes what the action changed.
func (r Record) effect() string {
	words := Changes(r.Before, r.After)
	if r.Gone {
		words = append(words, "gone")
	}
	switch {
	case len(words) == 0:
		return r.Detail
	case r.Detail == "":
		return strings.Join(words, ", ")
	default:
		return r.Detail + " " + strings.Join(words, ", ")
	}
}

func clean(s string) string {
	return strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(s)
}

// A Line is a record parsed from text: the fields that String wrote. The outcome is text.
type Line struct {
	Step   int
	At     time.Duration
	Task   string
	Action Action
	Result string
}

// String returns the line as Record.String wrote it.
func (l Line) String() string {
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", l.Step, l.At, l.Task, l.Action, l.Result)
}

// parseLine parses one line of a log. The error names the invalid part.
func parseLine(s string) (Line, error) {
	fields := strings.SplitN(s, "\t", 5)
	if len(fields) != 5 {
		return Line{}, fmt.Errorf("trace line %q: want 5 fields separated by tabs, got %d", s, len(fields))
	}
	step, err := strconv.Atoi(fields[0])
	if err != nil {
		return Line{}, fmt.Errorf("trace line %q: step: %w", s, err)
	}
	at, err := time.ParseDuration(fields[1])
	if err != nil {
		return Line{}, fmt.Errorf("trace line %q: time: %w", s, err)
	}
	words := strings.SplitN(fields[3], " ", 3)
	if len(words) < 2 {
		return Line{}, fmt.Errorf("trace line %q: action %q: want a kind and a verb", s, fields[3])
	}
	l := Line{
		Step: step, At: at, Task: fields[2],
		Action: Action{Kind: Kind(words[0]), Verb: words[1]}, Result: fields[4],
	}
	if len(words) == 3 {
		l.Action.Object = words[2]
	}
	return l, nil
}

// Version returns the resourceVersion in the detail of a record, 0 if there is none.
func (r *Record) Version() int {
	_, rest, found := strings.Cut(r.Detail, "rv=")
	if !found {
		return 0
	}
	digits, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// Resource returns the resource of a record's object: "pods" for "pods/default/web".
func (r *Record) Resource() string {
	resource, _, _ := strings.Cut(r.Object, "/")
	return resource
}
