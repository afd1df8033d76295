package picture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// Sequence draws requests and calls in words. The lanes are, from left to right: users, the API
// server, controllers, kubelets, drivers. Time runs downward. The records must not change
// afterwards.
func Sequence(records []trace.Record, o Options) *Drawing {
	return &Drawing{newSequence(newScene(records, o))}
}

// sequence is the sequence diagram.
type sequence struct {
	title    string
	lanes    []string
	messages []message
	verdict  []string
}

// A message goes from one lane to another, or is a note over all lanes (from is -1) or over one (to
// is -1).
type message struct {
	from, to  int
	what      ink
	number    int
	words     string
	violation bool
}

func newSequence(s *scene) *sequence {
	happened := elideMiddle(fold(s.events))
	p := &sequence{title: s.options.Title, lanes: s.lanesOf(happened)}
	if p.title == "" {
		p.title = "Requests and calls"
	}
	for _, v := range s.options.Verdict {
		p.verdict = append(p.verdict, trace.Abbreviate(v))
	}
	at := func(name string) int { return slices.Index(p.lanes, name) }
	for i := range happened {
		h := &happened[i]
		if !h.hasRow() {
			continue
		}
		if h.record != nil && h.pause() {
			p.messages = append(p.messages,
				message{from: -1, to: -1, what: "note", words: fmt.Sprintf("… %s later", h.after)})
		}
		m := message{
			from: -1, to: -1, what: "hot",
			words: strings.TrimPrefix(h.words, h.lane+" "), violation: h.violation,
		}
		switch h.kind {
		case wrote, refused:
			m.from, m.to, m.what = at(h.lane), at(server), strokeOf(h)
		case called:
			m.from, m.to, m.what = at(h.lane), at(h.callee), strokeOf(h)
		case injected:
			m.from, m.words = at(h.lane), h.words
		case looked:
			m.from, m.what, m.words = at(h.lane), "note", h.words
		case folded:
			m.what = "note"
		}
		if h.record != nil {
			m.number = number(h.record)
		}
		p.messages = append(p.messages, m)
	}
	return p
}

// pause reports whether the time since the previous event is shown.
func (h *sceneEvent) pause() bool {
	return h.after > 0 && (h.record.HostStep != 0 || h.after >= pauseMin)
}

func (p *sequence) mermaid() string {
	d := newSequenceDiagram(p.title, p.lanes)
	arrows := map[ink]string{"write": "->>", "refused": "--x", "lost": "-x"}
	for _, m := range p.messages {
		switch {
		case m.to >= 0:
			d.message(m.from, arrows[m.what], m.to, m.numbered())
		case m.from >= 0:
			d.note(m.from, m.from, m.numbered())
		default:
			d.note(0, len(p.lanes)-1, m.numbered())
		}
	}
	for _, v := range p.verdict {
		d.note(0, len(p.lanes)-1, v)
	}
	return d.String()
}

func (m *message) numbered() string {
	if m.number == 0 {
		return m.words
	}
	return fmt.Sprintf("%d %s", m.number, m.words)
}

func (p *sequence) text() string {
	g := newGrid(p.lanes)
	g.words(p.title)
	g.heads(g.lanes())
	for i, m := range p.messages {
		if repeatsHeads(i, len(p.messages)) {
			g.heads(g.lanes())
		}
		c := g.lanes()
		switch {
		case m.to >= 0 && m.what == "refused":
			c.join(m.from, m.to, '╌', false)
			c.put(m.from, "o")
			c.put(m.to, "x")
		case m.to >= 0:
			c.join(m.from, m.to, '─', true)
			c.put(m.from, choose(m.what == "lost", "x", "o"))
		}
		g.row(c, m.number, m.words)
	}
	for _, v := range p.verdict {
		g.words(v)
	}
	return g.String()
}
