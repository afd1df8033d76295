package casefile

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A Book is the cases of a package, the corresponding rows of another implementation's tables, and
// the Markdown file that lists both. Tests use it in the folder of the package.
type Book struct {
	Grammar  Grammar
	Package  string // folder of the package, relative to the Markdown file
	Folder   string // folder of the cases and of the file "rows", relative to the package
	Markdown string // path relative to the package

	Run    func(f *File, c *Case) (Outcome, error) // executes a case; an error means that it is malformed
	Diff   func(want, got []string) string         // returns the difference for a reader, or ""
	Update *bool                                   // the flag -update: outcomes and lists are written
}

func (b Book) load() ([]*File, []Table, error) {
	files, err := b.Grammar.Read(b.Folder)
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(filepath.Join(b.Folder, "rows"))
	if err != nil {
		return nil, nil, err
	}
	tables, err := ReadRows(string(text))
	return files, tables, err
}

// checkRows compares the cases with the rows and returns the problems; see CompareRows.
func (b Book) checkRows() ([]string, error) {
	files, tables, err := b.load()
	if err != nil {
		return nil, err
	}
	return CompareRows(files, tables), nil
}

// checkDifferences checks the declared deviations and returns the problems; see the function
// CheckDifferences.
func (b Book) checkDifferences() ([]string, error) {
	files, _, err := b.load()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(b.Markdown)
	if err != nil {
		return nil, err
	}
	return CheckDifferences(files, string(text), "."), nil
}

// rowList returns the generated section of the Markdown file that lists the case of each row, as it
// is and as it should be. With update it rewrites the section first.
func (b Book) rowList(update bool) (is, should string, err error) {
	files, tables, err := b.load()
	if err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(b.Markdown)
	if err != nil {
		return "", "", err
	}
	begin := fmt.Sprintf("<!-- cases: written by go test ./%s -run TestUpstreamLists -update -->\n", b.Package)
	end := fmt.Sprintf("<!-- end of cases of %s -->\n", b.Package)
	before, rest, found := strings.Cut(string(text), begin)
	is, after, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		return "", "", fmt.Errorf("%s: want %q and %q", b.Markdown, begin, end)
	}
	should = List(path.Join(b.Package, b.Folder), files, tables)
	if !update || is == should {
		return is, should, nil
	}
	return should, should, os.WriteFile(b.Markdown, []byte(before+begin+should+end+after), 0o644)
}
