package pvcontroller

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// caseFile is a file of testdata/cases: what is there in each of its cases, and the cases.
type caseFile struct {
	name     string // without folder and ".txt"
	preamble string // all before the first case, as it stands
	always   []*paragraph
	cases    []*behaviour
}

// behaviour is one case: what is there before, what happens, and what comes of it.
type behaviour struct {
	id, title string
	at        string // file:line
	setup     []*paragraph
	steps     []*step
	blocks    []*paragraph // all but what is made of the run, in order
}

// step is something that happens, and what comes of it.
type step struct {
	act      *paragraph
	requests bool // they are told
}

// paragraph is a line that is not indented, with the indented ones under it.
type paragraph struct {
	head string
	at   string // file:line
	body []bodyLine
}

type bodyLine struct{ text, at string }

var (
	setupHeads = regexp.MustCompile(`^(before|migration( \S+)+|no provisioning|plugin( that only provisions)?|` +
		`fail \S+ \S+ \S+( \d+ times)?: .+|when \S+ \S+ \S+|differs: .+)$`)
	actHeads  = regexp.MustCompile(`^(sync (claim|volume) \S+|settle|delete (claim|volume) \S+|(add|set) .+)$`)
	madeHeads = []string{"error", "after", "events", "requests"}
	caseHead  = regexp.MustCompile(`^=== (\S+) (.+)$`)
)

// readCases reads all files of a folder, in order of name.
func readCases(folder string) ([]*caseFile, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var files []*caseFile
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := parseCases(filepath.ToSlash(path), string(text))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// parseCases reads one file. The error names the line.
func parseCases(path, text string) (*caseFile, error) {
	f := &caseFile{name: strings.TrimSuffix(filepath.Base(path), ".txt")}
	var c *behaviour
	var b *paragraph
	for i, raw := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", path, i+1)
		head := caseHead.FindStringSubmatch(raw)
		if c == nil && head == nil {
			f.preamble += raw + "\n"
		}
		switch {
		case strings.TrimSpace(raw) == "" || c == nil && strings.HasPrefix(raw, "#"):
		case head != nil:
			c, b = &behaviour{id: head[1], title: head[2], at: at}, nil
			f.cases = append(f.cases, c)
		case strings.HasPrefix(raw, "  ") && b != nil:
			b.body = append(b.body, bodyLine{strings.TrimSpace(raw), at})
		default:
			b = &paragraph{head: raw, at: at}
			if err := f.take(c, b); err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	f.preamble = strings.TrimRight(f.preamble, "\n")
	for _, c := range f.cases {
		if len(c.steps) == 0 {
			return nil, fmt.Errorf("%s: nothing happens in case %s", c.at, c.id)
		}
	}
	return f, nil
}

// take sorts in a block.
func (f *caseFile) take(c *behaviour, b *paragraph) error {
	switch {
	case c == nil && (b.head == "always" || setupHeads.MatchString(b.head)):
		f.always = append(f.always, b)
		return nil
	case c == nil:
		return fmt.Errorf("%q: want always, or what a case begins with", b.head)
	case strings.HasPrefix(b.head, "#"):
	case slices.Contains(madeHeads, b.head) && len(c.steps) > 0:
		last := c.steps[len(c.steps)-1]
		last.requests = last.requests || b.head == "requests"
		return nil
	case setupHeads.MatchString(b.head) && len(c.steps) == 0:
		c.setup = append(c.setup, b)
	case actHeads.MatchString(b.head):
		c.steps = append(c.steps, &step{act: b})
	default:
		return fmt.Errorf("%q: neither what a case begins with, nor something that happens, nor something that comes of it", b.head)
	}
	c.blocks = append(c.blocks, b)
	return nil
}

// render writes a file down, with what came of its cases.
func (f *caseFile) render(came map[*behaviour]outcome) string {
	var b strings.Builder
	b.WriteString(f.preamble + "\n")
	for _, c := range f.cases {
		b.WriteString("\n" + c.render(came[c]))
	}
	return b.String()
}

// render writes a case down, with what came of it.
func (c *behaviour) render(came outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "=== %s %s\n", c.id, c.title)
	steps := 0
	for _, block := range c.blocks {
		b.WriteString(block.head + "\n")
		for _, line := range block.body {
			b.WriteString("  " + line.text + "\n")
		}
		if steps < len(c.steps) && c.steps[steps].act == block {
			if steps < len(came.steps) {
				b.WriteString(came.steps[steps].render(c.steps[steps].requests))
			}
			steps++
		}
	}
	return b.String()
}

// outcome is what came of a case.
type outcome struct {
	steps    []stepOutcome
	problems []string
	trace    string
}

// stepOutcome is what came of a step.
type stepOutcome struct {
	err                     string
	after, events, requests []string
	quiet                   bool // more happens before anything is looked at
}

func (o stepOutcome) render(requests bool) string {
	var b strings.Builder
	section := func(head string, lines []string) {
		b.WriteString(head + "\n")
		for _, line := range lines {
			b.WriteString("  " + line + "\n")
		}
	}
	if o.err != "" {
		section("error", []string{o.err})
	}
	if !o.quiet {
		section("after", o.after)
	}
	if len(o.events) > 0 {
		section("events", o.events)
	}
	if requests {
		section("requests", o.requests)
	}
	return b.String()
}
