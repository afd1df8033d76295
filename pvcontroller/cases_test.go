package pvcontroller

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
	files, err := grammar.Read(casesFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if *update {
			rewrite(t, f)
		}
		path := filepath.Join(casesFolder, f.Name+".txt")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text[:len(f.Preamble)], []byte(f.Preamble)); diff != "" {
			t.Fatalf("%s: the preamble is not as it is read:\n%s", path, diff)
		}
		written := casefile.SplitCases(string(text))
		for _, c := range f.Cases {
			t.Run(c.ID, func(t *testing.T) {
				t.Parallel()
				check(t, f, c, written[c.ID])
			})
		}
	}
}

func check(t *testing.T, f *casefile.File, c *casefile.Case, want string) {
	came, err := run(f, c)
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
		t.Logf("the case:\n%s\nwhat happened:\n%s", want, came.trace)
	}
	again, err := run(f, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(came.trace, again.trace); diff != "" {
		t.Errorf("%s: it happens otherwise the second time:\n%s", c.At, diff)
	}
}

func rewrite(t *testing.T, f *casefile.File) {
	t.Helper()
	came := map[*casefile.Case][][]casefile.Section{}
	for _, c := range f.Cases {
		o, err := run(f, c)
		if err != nil {
			t.Fatal(err)
		}
		came[c] = o.steps
	}
	if err := os.WriteFile(filepath.Join(casesFolder, f.Name+".txt"), []byte(f.Render(came)), 0o644); err != nil {
		t.Fatal(err)
	}
}
