package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// Story tells in plain words what the operations have done: each with what happened. A single step is told of whatever it
// was; of what happens in many, only what matters. Steps are counted since the world was set up.
func (s *Session) Story() string { return s.story(0) }

// Last tells the story of the last operation.
func (s *Session) Last() string { return s.story(max(0, len(s.done)-1)) }

// story tells of the operations from one on.
func (s *Session) story(from int) string {
	records := s.cluster.Trace().Records()
	at := s.began
	if from > 0 {
		at = s.done[from-1].upTo
	}
	t := teller{}
	if at > 0 {
		t.at = records[at-1].At
	}
	if from > 0 && at > s.began {
		t.turn = records[at-1].Turn
	}
	for _, d := range s.done[from:] {
		fmt.Fprintf(&t.text, "> %s\n", d.op)
		for _, r := range records[min(at, d.upTo):d.upTo] {
			t.tell(r, d.closer)
			if s.broken != nil && s.broken.Step == r.Step {
				fmt.Fprintf(&t.text, "   !! broken: %s\n", s.broken)
			}
		}
		t.pass()
		if d.note != "" {
			fmt.Fprintf(&t.text, "      (%s)\n", d.note)
		}
		at = max(at, d.upTo)
	}
	return trace.Short(t.text.String())
}

// teller tells of records.
type teller struct {
	text   strings.Builder
	at     time.Duration
	turn   int // of the last line
	passed int // how many were not told of since
}

func (t *teller) tell(r trace.Record, closer bool) {
	words, matters := trace.Tell(r)
	switch {
	case r.Kind == trace.KindEvent:
		words, matters = trace.TellEvent(r.Verb, r.Object), true
	case closer:
		words, matters = trace.TellAll(r), true
	}
	if !matters {
		t.passed++
		return
	}
	t.pass()
	if later := r.At - t.at; later > 0 {
		fmt.Fprintf(&t.text, "      … %s later:\n", later)
	}
	t.at = r.At
	number := "    "
	if r.Turn != t.turn {
		number = fmt.Sprintf("%4d", r.Turn)
	}
	t.turn = r.Turn
	if r.Kind != trace.KindEvent {
		words = trace.Strand(r.Actor) + " " + words
	}
	fmt.Fprintf(&t.text, "%s  %s\n", number, words)
}

// pass says how much was not told of.
func (t *teller) pass() {
	switch t.passed {
	case 0:
	case 1:
		fmt.Fprintln(&t.text, "      …")
	default:
		fmt.Fprintf(&t.text, "      … (%d small things)\n", t.passed)
	}
	t.passed = 0
}
