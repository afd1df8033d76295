package picture

import (
	"fmt"
	"strings"
)

// mermaid gives the diagram as a sequence diagram: what was heard too late is an arrow, too.
func (p *spaceTime) mermaid() string {
	return ""
}

func (p *spaceTime) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.title)
	for i := range p.moments {
		if m := &p.moments[i]; m.row {
			fmt.Fprintf(&b, "%4d  %s\n", m.number, m.words)
		}
	}
	return b.String()
}
