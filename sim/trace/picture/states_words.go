package picture

import (
	"fmt"
	"strings"
)

// mermaid returns the machines as one state diagram, with only the transitions taken.
func (p *states) mermaid() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\ntitle: %q\n---\nstateDiagram-v2\n", p.title)
	for i, m := range p.machines {
		fmt.Fprintf(&b, "  state %q as m%d {\n", plain(m.title), i)
		for j, name := range m.states {
			if m.visited[name] {
				fmt.Fprintf(&b, "    state %q as m%ds%d\n", name, i, j)
			}
		}
		for _, e := range m.edges {
			for _, n := range e.taken {
				fmt.Fprintf(&b, "    m%ds%d --> m%ds%d: %d\n", i, e.from, i, e.to, n)
			}
		}
		fmt.Fprintln(&b, "  }")
	}
	return b.String()
}

func (p *states) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.title)
	for _, m := range p.machines {
		fmt.Fprintf(&b, "%s\n", m.title)
		for _, e := range m.edges {
			for _, n := range e.taken {
				fmt.Fprintf(&b, "  %-10s ──%3d ──> %s\n", m.states[e.from], n, m.states[e.to])
			}
		}
	}
	for _, words := range p.omitted {
		fmt.Fprintln(&b, words)
	}
	for i, words := range p.steps {
		fmt.Fprintf(&b, "%3d %s\n", i+1, words)
	}
	for _, v := range p.verdict {
		fmt.Fprintln(&b, v)
	}
	if len(p.machines) > 0 {
		fmt.Fprintln(&b, "──  4 ──> transition, with the number of its change")
	}
	return b.String()
}
