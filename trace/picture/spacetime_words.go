package picture

import (
	"fmt"
	"slices"
)

// mermaid gives the diagram as a sequence diagram. Of what was heard it shows what was heard too late.
func (p *spaceTime) mermaid() string {
	m := newSequenceDiagram(p.title, p.lanes)
	for i := range p.moments {
		now := &p.moments[i]
		if now.row && now.lane < 0 {
			m.note(0, len(p.lanes)-1, now.words)
		} else if now.row && now.what == befell {
			m.note(now.lane, now.lane, now.words)
		}
		for _, s := range p.strokes {
			if s.toMoment == i {
				p.message(m, now, s)
			}
		}
		for _, note := range now.notes {
			m.note(now.lane, now.lane, note)
		}
	}
	for _, words := range slices.Concat(p.verdict, p.end) {
		m.note(0, len(p.lanes)-1, words)
	}
	return m.String()
}

// message writes a line of the diagram.
func (p *spaceTime) message(m *sequenceDiagram, now *moment, s stroke) {
	from := p.moments[s.fromMoment].version
	switch s.what {
	case "write":
		m.message(s.from, "->>", s.to, now.numbered()+now.stamp())
	case "refused":
		m.message(s.from, "--x", s.to, now.numbered())
	case "lost":
		m.message(s.from, "-x", s.to, now.numbered()+now.stamp())
	case "late":
		m.message(s.from, "-->>", s.to, fmt.Sprintf("rv %d, only now", from))
	case "old":
		m.message(s.from, "-->>", s.to, fmt.Sprintf("a list as old as rv %d", from))
	case "never":
		m.message(s.from, "--x", s.to, fmt.Sprintf("rv %d is not heard of", from))
	}
}

// numbered are the words of a row, with its number.
func (m *moment) numbered() string {
	if m.number == 0 {
		return m.words
	}
	return fmt.Sprintf("%d %s", m.number, m.words)
}

// stamp gives the version that was written.
func (m *moment) stamp() string {
	if m.version == 0 {
		return ""
	}
	return fmt.Sprintf(" (rv %d)", m.version)
}

// text gives the diagram with a column for each lane.
func (p *spaceTime) text() string {
	g := newGrid(p.lanes)
	g.words(p.title)
	g.heads()
	for i := range p.moments {
		now := &p.moments[i]
		c, drawn := g.lanes(), now.row
		for _, gap := range p.gaps {
			if gap.from < i && i < gap.to {
				c.put(gap.lane, ":")
			}
		}
		for _, s := range p.strokes {
			if s.toMoment == i {
				drawn = p.cell(c, now, s) || drawn
			}
		}
		if now.row && now.what == befell && now.lane >= 0 {
			c.put(now.lane, "x")
		}
		if drawn {
			g.row(c, now.numbered())
		}
		for _, note := range now.notes {
			g.row(g.lanes(), "  "+note)
		}
	}
	for _, words := range slices.Concat(p.verdict, p.end) {
		g.words(words)
	}
	g.words(p.key())
	return g.String()
}

// cell draws a line in a row, and tells whether there was something to draw.
func (p *spaceTime) cell(c cells, now *moment, s stroke) bool {
	from := p.moments[s.fromMoment].version
	switch s.what {
	case "write", "lost":
		c.join(s.from, s.to, '─', true)
		c.put(s.from, map[bool]string{true: "x", false: "o"}[s.what == "lost"])
		if now.version > 0 {
			c.put(s.to, fmt.Sprint(now.version))
		}
	case "refused":
		c.join(s.from, s.to, '╌', false)
		c.put(s.from, "o")
		c.put(s.to, "x")
	case "late":
		c.put(s.to, fmt.Sprintf("!%d", from))
	case "old":
		c.put(s.to, fmt.Sprintf("=%d", from))
	case "never":
		c.put(s.to, fmt.Sprintf("?%d", from))
	default:
		return false
	}
	return true
}

// key says what the signs are that there are.
func (p *spaceTime) key() string {
	key := "o acts; numbers are resourceVersions"
	for _, sign := range []struct {
		what  ink
		words string
	}{
		{"refused", "x is refused"},
		{"lost", "x the answer is lost"},
		{"late", "!7 hears of 7 after acting without it"},
		{"never", "?7 has not heard of 7"},
		{"old", "=7 gets a list as old as 7"},
	} {
		if slices.ContainsFunc(p.strokes, func(s stroke) bool { return s.what == sign.what }) {
			key += "; " + sign.words
		}
	}
	if len(p.gaps) > 0 {
		key += "; : is dead"
	}
	return key
}
