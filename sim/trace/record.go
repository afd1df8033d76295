package trace

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// Kind says what sort of action a record is of.
type Kind string

// The kinds of action.
const (
	KindAPI     Kind = "api"     // a request to the API server
	KindDriver  Kind = "driver"  // a call of a CSI driver or another plugin outside the component
	KindDeliver Kind = "deliver" // a watch event reaching a cache
	KindWork    Kind = "work"    // a worker taking up a key, or a user doing something
	KindTimer   Kind = "timer"   // a timer firing
	KindSleep   Kind = "sleep"   // a strand waking from a sleep
	KindWait    Kind = "wait"    // a strand going on because what it waited for is so
	KindEvent   Kind = "event"   // something that befell the world: a crash, a node that was lost
)

// Action names what an actor does: the kind, the verb (an API verb, the name of an RPC) and the object, as
// "resource/name", "resource/namespace/name", or whatever the kind calls its objects. Kind and verb are words
// without blanks.
type Action struct {
	Kind   Kind
	Verb   string
	Object string
}

// String gives "kind verb object".
func (a Action) String() string {
	if a.Object == "" {
		return string(a.Kind) + " " + a.Verb
	}
	return string(a.Kind) + " " + a.Verb + " " + a.Object
}

// Outcome is what became of an action.
type Outcome struct {
	Err    error          // nil when the action succeeded
	Detail string         // a few words, such as "rv=12"; never the error's text
	Before runtime.Object // the stored object before a write; nil for a create. Read-only
	After  runtime.Object // the stored object after a write; when it is gone, the last state. Read-only
	Gone   bool           // the write removed the object for good
	Read   bool           // a driver call only asked: nothing has changed by it
	Lost   bool           // the action took effect all the same: Err says that its answer was lost
}

// Record is one action that took place.
type Record struct {
	Step int           // 1, 2, 3 … in the order of effect
	At   time.Duration // since the world began: virtual time in the stepped host, real time live
	Task string        // "component/strand"
	Action
	Outcome
	Took     time.Duration // real duration of the effect; zero in the stepped host, and not part of the text
	HostStep int           // the step of the stepped host in which it took place, counted as in its schedule; not part of the text
}

// NumberHostSteps lets the turns of records go on where the host counts anew: when a world at rest is looked at once more. It changes
// the records.
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

// Failed tells whether the action ended in an error.
func (r Record) Failed() bool { return r.Err != nil }

// String gives the record's line of the log: step, time, actor, action, outcome. Tabs separate the five fields.
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

// Result gives the outcome in one line: the detail and what changed, or the error.
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
	return "error: " + r.Err.Error() + "; took effect all the same: " + done
}

// effect tells what the action came to.
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

// Line is a record read back from text: what String wrote, field by field. The outcome is text.
type Line struct {
	Step   int
	At     time.Duration
	Task   string
	Action Action
	Result string
}

// String gives the line as Record.String wrote it.
func (l Line) String() string {
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", l.Step, l.At, l.Task, l.Action, l.Result)
}

// ParseLine reads one line of a log's text. The error names what is wrong with the line.
func ParseLine(s string) (Line, error) {
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
	l := Line{Step: step, At: at, Task: fields[2], Action: Action{Kind: Kind(words[0]), Verb: words[1]}, Result: fields[4]}
	if len(words) == 3 {
		l.Action.Object = words[2]
	}
	return l, nil
}
