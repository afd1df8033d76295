package pvcontroller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/casefile"
)

func casesAndRows(t *testing.T) ([]*casefile.File, []casefile.Table) {
	t.Helper()
	files, err := grammar.Read(casesFolder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(casesFolder, "rows"))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := casefile.ReadRows(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return files, tables
}

// TestEveryRowOfUpstreamHasItsCase compares the cases with the rows of upstream's tables.
func TestEveryRowOfUpstreamHasItsCase(t *testing.T) {
	for _, wrong := range casefile.Compare(casesAndRows(t)) {
		t.Error(wrong)
	}
}

const (
	listBegin = "<!-- cases: written by go test ./pvcontroller -run TestUpstreamLists -update -->\n"
	listEnd   = "<!-- end of cases -->\n"
)

var upstreamFile = filepath.Join("..", "UPSTREAM.md")

// TestUpstreamLists compares what UPSTREAM.md says about the cases with what there is. With -update it is written.
func TestUpstreamLists(t *testing.T) {
	files, tables := casesAndRows(t)
	text, err := os.ReadFile(upstreamFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), listBegin)
	written, after, foundEnd := strings.Cut(rest, listEnd)
	if !found || !foundEnd {
		t.Fatalf("%s: want %q and %q", upstreamFile, listBegin, listEnd)
	}
	list := casefile.List("pvcontroller/"+casesFolder, files, tables)
	if *update && list != written {
		if err := os.WriteFile(upstreamFile, []byte(before+listBegin+list+listEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(written, "\n"), strings.Split(list, "\n")); diff != "" {
		t.Errorf("%s: the cases (-written +there):\n%s", upstreamFile, diff)
	}
}

// TestDifferencesAreDocumented looks up what each case says of its difference: a row of UPSTREAM.md that tells of one, and a
// docstring in the file that the row names.
func TestDifferencesAreDocumented(t *testing.T) {
	files, _ := casesAndRows(t)
	text, err := os.ReadFile(upstreamFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range casefile.Differences(files, string(text), ".") {
		t.Error(wrong)
	}
}
