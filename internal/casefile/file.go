package casefile

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Grammar classifies the paragraphs of cases by their first lines.
type Grammar struct {
	Setup    *regexp.Regexp // paragraphs of the setup; "always" before the first case and "differs: ROW" are implied
	Act      *regexp.Regexp // paragraphs of steps
	Outcomes []string       // first lines of outcomes, which are generated
}

// A File is a file of cases.
type File struct {
	Name     string // without folder and ".txt"
	Preamble string // everything before the first case, verbatim
	Always   []*Paragraph
	Cases    []*Case
}

// A Case is one story.
type Case struct {
	ID, Title string
	At        string // file:line
	Setup     []*Paragraph
	Steps     []*Step
	blocks    []*Paragraph // all paragraphs except outcomes, in order
}

// A Step is one action of a case.
type Step struct {
	Act      *Paragraph
	Outcomes []string // which of the Grammar's outcomes are recorded
}

// A Paragraph is an unindented line with the indented lines below it.
type Paragraph struct {
	Head string
	At   string // file:line
	Body []Line
}

// A Line is an indented line, without its indent.
type Line struct{ Text, At string }

// A Section is an outcome of a step: one of the Grammar's outcomes and its lines.
type Section struct {
	Head  string
	Lines []string
}

var caseHead = regexp.MustCompile(`^=== (\S+) (.+)$`)

// Read parses all files NAME.txt of a folder, sorted by name. Errors contain the position.
func (g Grammar) Read(folder string) ([]*File, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var files []*File
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := g.Parse(filepath.ToSlash(path), string(text))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Parse parses one file. Errors contain the position.
func (g Grammar) Parse(path, text string) (*File, error) {
	f := &File{Name: strings.TrimSuffix(filepath.Base(path), ".txt")}
	var c *Case
	var p *Paragraph
	for i, raw := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", path, i+1)
		head := caseHead.FindStringSubmatch(raw)
		if c == nil && head == nil {
			f.Preamble += raw + "\n"
		}
		switch {
		case strings.TrimSpace(raw) == "" || c == nil && strings.HasPrefix(raw, "#"):
		case head != nil:
			c, p = &Case{ID: head[1], Title: head[2], At: at}, nil
			f.Cases = append(f.Cases, c)
		case strings.HasPrefix(raw, "  ") && p != nil:
			p.Body = append(p.Body, Line{strings.TrimSpace(raw), at})
		default:
			p = &Paragraph{Head: raw, At: at}
			if err := g.addParagraph(f, c, p); err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	f.Preamble = strings.TrimRight(f.Preamble, "\n")
	for _, c := range f.Cases {
		if len(c.Steps) == 0 {
			return nil, fmt.Errorf("%s: case %s has no steps", c.At, c.ID)
		}
	}
	return f, nil
}

// addParagraph classifies a paragraph and adds it to its case.
func (g Grammar) addParagraph(f *File, c *Case, p *Paragraph) error {
	setup := g.Setup.MatchString(p.Head) || strings.HasPrefix(p.Head, differs)
	switch {
	case c == nil && (p.Head == "always" || setup):
		f.Always = append(f.Always, p)
		return nil
	case c == nil:
		return fmt.Errorf("unexpected paragraph %q: want \"always\" or a setup paragraph", p.Head)
	case strings.HasPrefix(p.Head, "#"):
	case slices.Contains(g.Outcomes, p.Head) && len(c.Steps) > 0:
		last := c.Steps[len(c.Steps)-1]
		last.Outcomes = append(last.Outcomes, p.Head)
		return nil
	case setup && len(c.Steps) == 0:
		c.Setup = append(c.Setup, p)
	case g.Act.MatchString(p.Head):
		c.Steps = append(c.Steps, &Step{Act: p})
	default:
		return fmt.Errorf("unexpected paragraph %q: want a setup paragraph, a step or an outcome", p.Head)
	}
	c.blocks = append(c.blocks, p)
	return nil
}

// Render returns the text of a file with the given outcomes of its cases.
func (f *File) Render(came map[*Case][][]Section) string {
	var b strings.Builder
	b.WriteString(f.Preamble + "\n")
	for _, c := range f.Cases {
		b.WriteString("\n" + c.Render(came[c]))
	}
	return b.String()
}

// Render returns the text of a case with the given outcomes of its steps.
func (c *Case) Render(came [][]Section) string {
	var b strings.Builder
	fmt.Fprintf(&b, "=== %s %s\n", c.ID, c.Title)
	steps := 0
	for _, p := range c.blocks {
		b.WriteString(p.Head + "\n")
		for _, line := range p.Body {
			b.WriteString("  " + line.Text + "\n")
		}
		if steps < len(c.Steps) && c.Steps[steps].Act == p {
			if steps < len(came) {
				writeSections(&b, came[steps])
			}
			steps++
		}
	}
	return b.String()
}

func writeSections(b *strings.Builder, sections []Section) {
	for _, s := range sections {
		b.WriteString(s.Head + "\n")
		for _, line := range s.Lines {
			b.WriteString("  " + line + "\n")
		}
	}
}

// SplitCases returns the text of each case of a file, by ID.
func SplitCases(text string) map[string]string {
	cases := map[string]string{}
	for _, part := range strings.Split("\n"+text, "\n=== ")[1:] {
		id, _, _ := strings.Cut(part, " ")
		cases[id] = "=== " + strings.TrimRight(part, "\n") + "\n"
	}
	return cases
}
