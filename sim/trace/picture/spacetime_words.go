package picture

import (
	"fmt"
	"slices"
	"strings"
)

// mermaid returns the diagram as a sequence diagram. Of the deliveries it shows only late ones.
func (p *spaceTime) mermaid() string {
	m := newSequenceDiagram(p.title, p.lanes)
	for i := range p.moments {
		now := &p.moments[i]
		if now.row && now.lane < 0 {
			m.note(0, len(p.lanes)-1, now.words)
		} else if now.row && now.kind == injected {
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
	for _, b := range p.staleAtEnd {
		m.note(0, len(p.lanes)-1, "at the end: "+b.String())
	}
	for _, v := range p.verdict {
		m.note(0, len(p.lanes)-1, v)
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
		m.message(s.from, "-->>", s.to, fmt.Sprintf("rv %d seen late", from))
	case "old":
		m.message(s.from, "-->>", s.to, fmt.Sprintf("a list as old as rv %d", from))
	case "never":
		m.message(s.from, "--x", s.to, fmt.Sprintf("rv %d not seen", from))
	}
}

// numbered returns the text of a row, with its number.
func (m *moment) numbered() string {
	if m.number == 0 {
		return m.words
	}
	return fmt.Sprintf("%d %s", m.number, m.words)
}

// stamp returns the version that was written.
func (m *moment) stamp() string {
	if m.version == 0 {
		return ""
	}
	return fmt.Sprintf(" (rv %d)", m.version)
}

// text returns the diagram with a column for each lane.
func (p *spaceTime) text() string {
	g := newGrid(p.lanes)
	g.words(p.title)
	g.heads(g.lanes())
	row, rows := 0, p.rows()
	for i := range p.moments {
		now := &p.moments[i]
		c, drawn := g.lanes(), now.row
		for _, gap := range p.downSpans {
			if gap.from < i && i < gap.to {
				c.put(gap.lane, ":")
			}
		}
		if now.row {
			if repeatsHeads(row, rows) {
				g.heads(c)
			}
			row++
		}
		var signs []string
		for _, s := range p.strokes {
			if s.toMoment != i {
				continue
			}
			sign := p.sign(s)
			switch {
			case sign == "":
				p.cell(c, now, s)
			case len(signs) > 0: // a lane has room for one
				signs = append(signs, sign)
			default:
				c.put(s.to, sign)
				signs = append(signs, sign)
			}
		}
		words := now.words
		if len(signs) > 1 {
			words = strings.Join(signs, " ")
		}
		drawn = drawn || len(signs) > 0
		for _, gap := range p.downSpans {
			if gap.from == i {
				c.put(gap.lane, "x")
			}
		}
		if drawn {
			g.row(c, now.number, words)
		}
		for _, note := range now.notes {
			g.row(g.lanes(), 0, "  "+note)
		}
	}
	for _, b := range p.staleAtEnd {
		g.words("At the end: " + b.String())
	}
	for _, v := range p.verdict {
		g.words(v)
	}
	g.words(p.key())
	return g.String()
}

// sign returns the mark of a late delivery, an unseen write or an old list, and "" for any other
// line.
func (p *spaceTime) sign(s stroke) string {
	signs := map[ink]string{"late": "!", "never": "?", "old": "="}
	if signs[s.what] == "" {
		return ""
	}
	return signs[s.what] + fmt.Sprint(p.moments[s.fromMoment].version)
}

// cell draws a line in a row.
func (p *spaceTime) cell(c cells, now *moment, s stroke) {
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
	}
}

// key returns a legend of the marks that occur.
func (p *spaceTime) key() string {
	key := "o acts; left: resourceVersions, right: steps"
	for _, sign := range []struct {
		what  ink
		words string
	}{
		{"refused", "x refused"},
		{"lost", "x response lost"},
		{"late", "!7 sees 7 after acting without it"},
		{"never", "?7 has not seen 7"},
		{"old", "=7 gets a list of version 7"},
	} {
		if slices.ContainsFunc(p.strokes, func(s stroke) bool { return s.what == sign.what }) {
			key += "; " + sign.words
		}
	}
	if len(p.downSpans) > 0 {
		key += "; : down"
	}
	return key
}
