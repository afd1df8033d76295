package attachdetach_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/casefile"
)

var update = flag.Bool("update", false, "write into testdata/cases, and into UPSTREAM.md, what comes of the cases")

const casesFolder = "testdata/cases"

// TestCases runs each case twice and compares the results with the file. With -update it writes
// them.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := grammar.Read(casesFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := filepath.Join(casesFolder, f.Name+".txt")
		if *update {
			rewrite(t, f, path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		written := casefile.SplitCases(string(text))
		for _, c := range f.Cases {
			t.Run(c.ID, func(t *testing.T) {
				t.Parallel()
				checkCase(t, f, c, written[c.ID])
			})
		}
	}
}

func checkCase(t *testing.T, f *casefile.File, c *casefile.Case, want string) {
	t.Helper()
	came, err := runCase(f, c, crash{})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Render(came.steps)
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s: what comes of it (-want +got):\n%s", c.At, diff)
	}
	for _, problem := range came.problems {
		t.Errorf("%s: %s", c.At, problem)
	}
	if t.Failed() {
		t.Logf("the case:\n%s\nwhat happened:\n%s", want, came.trace.Text())
	}
	again, err := runCase(f, c, crash{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(came.trace.Text(), again.trace.Text()); diff != "" {
		t.Errorf("%s: it happens otherwise the second time:\n%s", c.At, diff)
	}
}

func rewrite(t *testing.T, f *casefile.File, path string) {
	t.Helper()
	came := map[*casefile.Case][][]casefile.Section{}
	for _, c := range f.Cases {
		o, err := runCase(f, c, crash{})
		if err != nil {
			t.Fatal(err)
		}
		came[c] = o.steps
	}
	if err := os.WriteFile(path, []byte(f.Render(came)), 0o644); err != nil {
		t.Fatal(err)
	}
}
