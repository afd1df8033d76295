package attachdetach_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/casefile"
)

var book = casefile.Book{
	Grammar: grammar, Package: "attachdetach", Folder: "testdata/cases", Markdown: filepath.Join("..", "UPSTREAM.md"),
	Run: func(f *casefile.File, c *casefile.Case) (casefile.Outcome, error) {
		out, err := runCase(f, c, crash{})
		return out.Outcome, err
	},
	Diff:   func(want, got []string) string { return cmp.Diff(want, got) },
	Update: flag.Bool("update", false, "write the outcomes of testdata/cases, and the lists of them in UPSTREAM.md"),
}

// TestCases runs each case twice and compares the outcomes with the file. With -update it writes
// them.
func TestCases(t *testing.T) {
	t.Parallel()
	book.TestCases(t)
}

// TestEveryRowOfUpstreamHasItsCase compares the cases with the rows of upstream's tables.
func TestEveryRowOfUpstreamHasItsCase(t *testing.T) { book.TestRows(t) }

// TestDifferencesAreDocumented checks that each deviation that a case declares has a row in
// UPSTREAM.md and a "Differs:" comment in a file that the row names.
func TestDifferencesAreDocumented(t *testing.T) { book.TestDifferences(t) }

// TestUpstreamLists compares the generated lists in UPSTREAM.md with the cases. With -update it
// writes them.
func TestUpstreamLists(t *testing.T) { book.TestRowList(t) }
