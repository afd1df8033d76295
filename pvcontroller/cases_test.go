package pvcontroller

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write into testdata/cases, and into UPSTREAM.md, what comes of the cases")

const casesFolder = "testdata/cases"

// TestCases lets each case happen twice, and compares what comes of it with what is written. With -update it is written.
func TestCases(t *testing.T) {
	files, err := readCases(casesFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if *update {
			rewrite(t, f)
		}
		path := filepath.Join(casesFolder, f.name+".txt")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text[:len(f.preamble)], []byte(f.preamble)); diff != "" {
			t.Fatalf("%s: the preamble is not as it is read:\n%s", path, diff)
		}
		written := asWritten(string(text))
		for _, c := range f.cases {
			t.Run(c.id, func(t *testing.T) {
				t.Parallel()
				check(t, f, c, written[c.id])
			})
		}
	}
}

func check(t *testing.T, f *caseFile, c *behaviour, want string) {
	came, err := run(f, c)
	if err != nil {
		t.Fatal(err)
	}
	got := c.render(came)
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s: what comes of it (-want +got):\n%s", c.at, diff)
	}
	for _, problem := range came.problems {
		t.Errorf("%s: %s", c.at, problem)
	}
	if t.Failed() {
		t.Logf("the case:\n%s\nwhat happened:\n%s", want, came.trace)
	}
	again, err := run(f, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(came.trace, again.trace); diff != "" {
		t.Errorf("%s: it happens otherwise the second time:\n%s", c.at, diff)
	}
}

// asWritten cuts a file into its cases, by id.
func asWritten(text string) map[string]string {
	cases := map[string]string{}
	for _, part := range strings.Split("\n"+text, "\n=== ")[1:] {
		id, _, _ := strings.Cut(part, " ")
		cases[id] = "=== " + strings.TrimRight(part, "\n") + "\n"
	}
	return cases
}

func rewrite(t *testing.T, f *caseFile) {
	t.Helper()
	came := map[*behaviour]outcome{}
	for _, c := range f.cases {
		o, err := run(f, c)
		if err != nil {
			t.Fatal(err)
		}
		came[c] = o
	}
	if err := os.WriteFile(filepath.Join(casesFolder, f.name+".txt"), []byte(f.render(came)), 0o644); err != nil {
		t.Fatal(err)
	}
}
