package picture

import (
	"fmt"
	"strings"
)

// plain escapes the characters that have a meaning in a Mermaid diagram.
func plain(words string) string {
	return strings.NewReplacer("#", "#35;", ";", "#59;", "<", "#lt;", ">", "#gt;", "\n", " ").Replace(words)
}

// A sequenceDiagram writes Mermaid's sequenceDiagram.
type sequenceDiagram struct{ b strings.Builder }

func newSequenceDiagram(title string, lanes []string) *sequenceDiagram {
	d := &sequenceDiagram{}
	fmt.Fprintf(&d.b, "---\ntitle: %q\n---\nsequenceDiagram\n", title)
	for i, name := range lanes {
		fmt.Fprintf(&d.b, "  participant l%d as %s\n", i, plain(name))
	}
	return d
}

// note writes a note over lanes.
func (d *sequenceDiagram) note(from, to int, words string) {
	lanes := fmt.Sprintf("l%d", from)
	if to != from {
		lanes += fmt.Sprintf(",l%d", to)
	}
	fmt.Fprintf(&d.b, "  Note over %s: %s\n", lanes, plain(words))
}

// message writes a message from one lane to another.
func (d *sequenceDiagram) message(from int, arrow string, to int, words string) {
	fmt.Fprintf(&d.b, "  l%d%sl%d: %s\n", from, arrow, to, plain(words))
}

func (d *sequenceDiagram) String() string { return d.b.String() }
