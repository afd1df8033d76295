package casefile

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Book is the cases of a package, the rows of the other implementation's tables that they stand for, and the Markdown file that
// tells of both. The tests of the package run in its folder.
type Book struct {
	Grammar  Grammar
	Package  string // its folder, from where the Markdown file stands
	Folder   string // of the cases, and of the file "rows"; from the package
	Markdown string // from the package
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

// CheckRows holds the cases against the rows, and tells what is wrong; see Compare.
func (b Book) CheckRows() ([]string, error) {
	files, tables, err := b.load()
	if err != nil {
		return nil, err
	}
	return CompareRows(files, tables), nil
}

// CheckDifferences looks up what the cases say of other outcomes, and tells what is wrong; see Differences.
func (b Book) CheckDifferences() ([]string, error) {
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

// RowList is what the Markdown file says of which case each row has, between two marks, and what it should say. With update
// that is written, and it is what the file says.
func (b Book) RowList(update bool) (is, should string, err error) {
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
