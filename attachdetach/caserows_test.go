package attachdetach_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/casefile"
)

// book is the cases and what UPSTREAM.md says of them.
var book = casefile.Book{
	Grammar: grammar, Package: "attachdetach", Folder: casesFolder, Markdown: filepath.Join("..", "UPSTREAM.md"),
}

// TestEveryRowOfUpstreamHasItsCase compares the cases with the rows of upstream's tables.
func TestEveryRowOfUpstreamHasItsCase(t *testing.T) {
	report(t, book.CheckRows)
}

// TestDifferencesAreDocumented looks up what each case says of its difference: a row of UPSTREAM.md that tells of one, and a
// docstring in the file that the row names.
func TestDifferencesAreDocumented(t *testing.T) {
	report(t, book.CheckDifferences)
}

func report(t *testing.T, find func() ([]string, error)) {
	t.Helper()
	wrong, err := find()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

// TestUpstreamLists compares what UPSTREAM.md says about the cases with what there is. With -update it is written.
func TestUpstreamLists(t *testing.T) {
	is, should, err := book.RowList(*update)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(is, "\n"), strings.Split(should, "\n")); diff != "" {
		t.Errorf("%s: the cases (-written +there):\n%s", book.Markdown, diff)
	}
}
