package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// Story returns the operations with their actions in words. It includes every action of a single
// step, and only the important ones of many. Steps are counted from the set-up of the world.
func (s *Session) Story() string { return s.story(0) }

// Last returns the story of the last operation.
func (s *Session) Last() string { return s.story(max(0, len(s.done)-1)) }

// story returns the story of the operations from one on.
func (s *Session) story(from int) string {
	records := s.cluster.Trace().Records()
	at := s.began
	if from > 0 {
		at = s.done[from-1].upTo
	}
	t := storyWriter{}
	if at > 0 {
		t.at = records[at-1].At
	}
	for _, d := range s.done[from:] {
		if at > s.began {
			t.lastStep = records[at-1].HostStep // a user acts between two steps: this one gets no number again
		}
		fmt.Fprintf(&t.text, "> %s\n", shorten(public(d.op)))
		for _, r := range records[min(at, d.upTo):d.upTo] {
			t.addRecord(r, d.verbose)
			if s.violation != nil && s.violation.Step == r.Step {
				fmt.Fprintf(&t.text, "   !! violation: %s\n", s.violation)
			}
		}
		t.addOmitted()
		if d.note != "" {
			fmt.Fprintf(&t.text, "      (%s)\n", d.note)
		}
		at = max(at, d.upTo)
	}
	return trace.Abbreviate(t.text.String())
}

// requestWidth is how much of a request the story includes, in characters.
const requestWidth = 100

// isRequest reports whether an operation is an API request.
func isRequest(op string) bool { return strings.HasPrefix(strings.TrimSpace(op), "request ") }

// shorten returns the beginning of a request whose body is long, and an apply without its manifest.
// What they do is below it.
func shorten(op string) string {
	if strings.HasPrefix(op, "apply ") {
		return "apply …"
	}
	if all := []rune(op); isRequest(op) && len(all) > requestWidth {
		return string(all[:requestWidth]) + "…"
	}
	return op
}

// A storyWriter writes records in words.
type storyWriter struct {
	text     strings.Builder
	at       time.Duration
	lastStep int // of the last line
	omitted  int // records omitted since the last line
}

func (t *storyWriter) addRecord(r trace.Record, closer bool) {
	words, matters := trace.Describe(r)
	switch {
	case r.Kind == trace.KindEvent:
		words, matters = trace.DescribeEvent(r.Verb, r.Object), true
	case closer:
		words, matters = trace.DescribeAny(r), true
	}
	if !matters {
		t.omitted++
		return
	}
	t.addOmitted()
	if later := r.At - t.at; later > 0 {
		fmt.Fprintf(&t.text, "      … %s later:\n", later)
	}
	t.at = r.At
	number := "    "
	if r.HostStep != t.lastStep {
		number = fmt.Sprintf("%4d", r.HostStep)
	}
	t.lastStep = r.HostStep
	if r.Kind != trace.KindEvent {
		words = trace.DescribeTask(r.Task) + " " + words
	}
	fmt.Fprintf(&t.text, "%s  %s\n", number, words)
}

// addOmitted writes how many records were omitted.
func (t *storyWriter) addOmitted() {
	switch t.omitted {
	case 0:
	case 1:
		fmt.Fprintln(&t.text, "      …")
	default:
		fmt.Fprintf(&t.text, "      … (%d minor actions)\n", t.omitted)
	}
	t.omitted = 0
}
