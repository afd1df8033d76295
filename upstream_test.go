package volsim_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRowsOfUpstreamHaveTheirTests looks up each test of ours that UPSTREAM.md names beside a row of upstream's, in the folder
// that the heading names or that stands before it: TestX, FOLDER: TestX, or TestX/name of a case, which is a text of that test's
// or a history of testdata/cases.
func TestRowsOfUpstreamHaveTheirTests(t *testing.T) {
	text, err := os.ReadFile("UPSTREAM.md")
	if err != nil {
		t.Fatal(err)
	}
	folder, rows := "", 0
	all := allSources(t)
	tests := map[string]map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "#"); ok {
			_, folder, _ = strings.Cut(heading, "_test.go in ")
			if folder != "" && tests[folder] == nil {
				tests[folder] = testsOf(t, all, folder)
			}
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if folder == "" || len(cells) != 2 || !strings.HasPrefix(cells[0], "Test") {
			continue
		}
		for row := range strings.SplitSeq(cells[1], "<br>") {
			_, ours, named := strings.Cut(row, " → ")
			if !named {
				ours = row
			}
			rows++
			if reason, none := strings.CutPrefix(ours, "none: "); none && reason != "" {
				continue
			}
			at := folder
			if elsewhere, test, named := strings.Cut(ours, ": "); named {
				at, ours = elsewhere, test
			}
			if tests[at] == nil {
				tests[at] = testsOf(t, all, at)
			}
			if !tests[at][ours] {
				t.Errorf("%s, %s: there is no test %s in %s", cells[0], row, ours, at)
			}
		}
	}
	if rows < 100 {
		t.Errorf("%d rows are listed: are there no more?", rows)
	}
}

var (
	namedTest     = regexp.MustCompile(`\bTest[A-Z]\w*`)
	upstreamsTest = regexp.MustCompile(`(_test\.go|upstream's) Test[A-Z]\w*`)
)

// TestTestsNamedInUpstreamExist checks that each test of ours that UPSTREAM.md names exists, here or in a test module.
// Upstream's own tests stand in the first cell of a row, behind a file or behind "upstream's".
func TestTestsNamedInUpstreamExist(t *testing.T) {
	exists := map[string]bool{}
	for _, s := range allSources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				exists[f.Name.Name] = true
			}
		}
	}
	text, err := os.ReadFile("UPSTREAM.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| Test") {
			_, line, _ = strings.Cut(line, " | ")
		}
		for _, name := range namedTest.FindAllString(upstreamsTest.ReplaceAllString(line, ""), -1) {
			if named++; !exists[name] {
				t.Errorf("test %q does not exist: %s", name, strings.TrimSpace(line))
			}
		}
	}
	if named < 100 {
		t.Errorf("found %d names of tests, want at least 100", named)
	}
}

// testsOf are the tests of a folder, and each with each text in it and each row of a file of testdata that it names,
// and TestCases with each history of testdata/cases.
func testsOf(t *testing.T, all []source, folder string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, s := range all {
		if s.folder != folder || !s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			found[f.Name.Name] = true
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						found[f.Name.Name+"/"+text] = true
						for _, row := range rowsOf(filepath.Join(folder, "testdata", text)) {
							found[f.Name.Name+"/"+row] = true
						}
					}
				}
				return true
			})
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "testdata", "cases", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if id, ok := strings.CutPrefix(strings.TrimSpace(line), "=== "); ok {
				found["TestCases/"+id] = true
			}
		}
	}
	return found
}

// rowsOf are the names of the rows of a file, none if it has none: see scheduler/internal/rowtest.
func rowsOf(file string) []string {
	if filepath.Ext(file) != ".txt" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "row "); ok {
			rows = append(rows, name)
		}
	}
	return rows
}
