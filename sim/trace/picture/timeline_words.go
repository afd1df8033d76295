package picture

import (
	"fmt"
	"strings"
)

// mermaid returns the timeline as a Gantt chart in which each instant takes a millisecond. Mermaid
// reads the starts of tasks as milliseconds even where they are seconds. It does not reserve space
// for the names of tracks, so the padding is computed here.
func (p *timeline) mermaid() string {
	names := 0
	for _, g := range p.groups {
		for _, k := range g.tracks {
			names = max(names, len(k.full()))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "---\ntitle: %q\nconfig:\n  gantt:\n    leftPadding: %d\n---\n", p.title,
		mermaidMargin+names*mermaidLetter)
	b.WriteString("gantt\n  dateFormat x\n  axisFormat %Q\n")
	for _, g := range p.groups {
		for _, k := range g.tracks {
			fmt.Fprintf(&b, "  section %s\n", strings.ReplaceAll(plain(k.full()), ":", ""))
			for _, f := range k.phases {
				tag := map[ink]string{"busy": "active, ", "past": "done, ", "wait": "crit, "}[f.what]
				fmt.Fprintf(&b, "  %s :%s%d, %d\n", plain(choose(f.words == "", "retries", f.words)), tag, f.from, f.to)
			}
		}
	}
	if len(p.events) > 0 {
		b.WriteString("  section Events\n")
	}
	for _, e := range p.events {
		fmt.Fprintf(&b, "  %s :milestone, %d, %d\n", strings.ReplaceAll(plain(e.words), ":", ","), e.at, e.at)
	}
	return b.String()
}

// The space for a name next to a Gantt chart, in Mermaid's pixels.
const (
	mermaidMargin = 20
	mermaidLetter = 6
)

// full returns the whole name of a track.
func (k *track) full() string { return strings.TrimSpace(k.name + " " + k.under) }

// textWidth is the number of characters of the time axis.
const textWidth = 100

func (p *timeline) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.title)
	names := 0
	for _, g := range p.groups {
		for _, k := range g.tracks {
			names = max(names, len(k.full()))
		}
	}
	names = min(names, 44)
	r := p.ruler(0, textWidth)
	for _, g := range p.groups {
		fmt.Fprintln(&b, g.title)
		for _, k := range g.tracks {
			row := []rune(strings.Repeat("·", textWidth+1))
			for _, f := range k.phases {
				bar(row, r.xs[f.from], r.xs[f.to], f.words)
			}
			for _, t := range k.tries {
				row[r.xs[t.at]] = map[bool]rune{true: 'x', false: 'o'}[t.failed]
			}
			name := k.full()
			if len(name) > names {
				name = name[:names-1] + "…"
			}
			fmt.Fprintf(&b, "  %-*s %s\n", names, name, string(row[:textWidth]))
		}
	}
	for _, e := range p.events {
		fmt.Fprintf(&b, "  %-*s %s^ %s\n", names, "", strings.Repeat(" ", r.xs[e.at]), e.words)
	}
	for _, v := range p.verdict {
		fmt.Fprintln(&b, v)
	}
	return b.String()
}

// bar writes a phase: its name and its duration.
func bar(row []rune, from, to int, words string) {
	if from >= to {
		return
	}
	row[from] = '|'
	for i := from + 1; i < to; i++ {
		row[i] = '─'
	}
	if len(words) < to-from {
		copy(row[from+1:], []rune(words))
	}
}
