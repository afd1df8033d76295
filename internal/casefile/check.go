package casefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/sim/trace"
)

// An Outcome is the result of a case.
type Outcome struct {
	Steps    [][]Section
	Problems []string
	Trace    *trace.Log
}

// EachCase runs test in a parallel subtest for each case.
func (b Book) EachCase(t *testing.T, test func(t *testing.T, f *File, c *Case)) {
	t.Helper()
	files, err := b.Grammar.Read(b.Folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, c := range f.Cases {
			t.Run(c.ID, func(t *testing.T) {
				t.Parallel()
				test(t, f, c)
			})
		}
	}
}

// TestCases runs each case twice and compares the outcomes with the file. With -update it writes
// them first.
func (b Book) TestCases(t *testing.T) {
	t.Helper()
	files, err := b.Grammar.Read(b.Folder)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{}
	for _, f := range files {
		path := filepath.Join(b.Folder, f.Name+".txt")
		if *b.Update {
			b.rewrite(t, f, path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), f.Preamble) {
			t.Fatalf("%s: the text before the first case is not as parsed:\n%s", path, f.Preamble)
		}
		for id, text := range SplitCases(string(text)) {
			written[id] = text
		}
	}
	b.EachCase(t, func(t *testing.T, f *File, c *Case) { b.check(t, f, c, written[c.ID]) })
}

func (b Book) check(t *testing.T, f *File, c *Case, want string) {
	t.Helper()
	out, err := b.Run(f, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := b.diff(want, c.Render(out.Steps)); diff != "" {
		t.Errorf("%s: outcomes (-want +got):\n%s", c.At, diff)
	}
	for _, problem := range out.Problems {
		t.Errorf("%s: %s", c.At, problem)
	}
	if t.Failed() {
		t.Logf("the case:\n%s\nthe trace:\n%s", want, out.Trace.Text())
	}
	again, err := b.Run(f, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := b.diff(out.Trace.Text(), again.Trace.Text()); diff != "" {
		t.Errorf("%s: the second run has another trace (-first +second):\n%s", c.At, diff)
	}
}

// diff compares two texts by lines.
func (b Book) diff(want, got string) string {
	if want == got {
		return ""
	}
	return b.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
}

func (b Book) rewrite(t *testing.T, f *File, path string) {
	t.Helper()
	outcomes := map[*Case][][]Section{}
	for _, c := range f.Cases {
		out, err := b.Run(f, c)
		if err != nil {
			t.Fatal(err)
		}
		outcomes[c] = out.Steps
	}
	if err := os.WriteFile(path, []byte(f.Render(outcomes)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRows compares the cases with the rows; see CompareRows.
func (b Book) TestRows(t *testing.T) {
	t.Helper()
	report(t, b.checkRows)
}

// TestDifferences checks the declared deviations; see the function CheckDifferences.
func (b Book) TestDifferences(t *testing.T) {
	t.Helper()
	report(t, b.checkDifferences)
}

func report(t *testing.T, check func() ([]string, error)) {
	t.Helper()
	problems, err := check()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
}

// TestRowList compares the generated section of the Markdown file with the cases. With -update it
// writes the section.
func (b Book) TestRowList(t *testing.T) {
	t.Helper()
	is, should, err := b.rowList(*b.Update)
	if err != nil {
		t.Fatal(err)
	}
	if diff := b.diff(is, should); diff != "" {
		t.Errorf("%s: list of cases (-written +generated):\n%s", b.Markdown, diff)
	}
}

// A Defect is the text of a file with one case that is malformed or fails, and part of its error or
// of one of its problems.
type Defect = struct{ Name, Text, Want string }

// TestDefects runs the case of each defect, if its file "f.txt" can be parsed, and checks what is
// reported.
func (b Book) TestDefects(t *testing.T, defects []Defect) {
	t.Helper()
	for _, d := range defects {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			var problems []string
			f, err := b.Grammar.Parse("f.txt", d.Text)
			if err == nil {
				var out Outcome
				out, err = b.Run(f, f.Cases[0])
				problems = out.Problems
			}
			if err != nil {
				problems = append(problems, err.Error())
			}
			if got := strings.Join(problems, "\n"); !strings.Contains(got, d.Want) {
				t.Errorf("got %q, want %q in it", got, d.Want)
			}
		})
	}
}
