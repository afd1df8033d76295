package upstreamad_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rowsFile lists the rows of upstream's tests with cases of attachdetach.
var rowsFile = filepath.Join("..", "..", "..", "attachdetach", "testdata", "cases", "rows")

// TestRowsAreThoseOfUpstream compares the listed rows with the source of upstream's tests: all test
// files below the attach/detach controller, all tests in them, and the number of rows of each.
func TestRowsAreThoseOfUpstream(t *testing.T) {
	const pkg = "k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := listedRows(t)
	found := 0
	for path, file := range testFiles(t, strings.TrimSpace(string(folder))) { // the order does not matter
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			found++
			table := path + " " + f.Name.Name
			if want := max(rowsOf(f), 1); len(listed[table]) != want {
				t.Errorf("%s: %d rows are listed, upstream has %d", table, len(listed[table]), want)
			}
			delete(listed, table)
		}
	}
	for table := range listed {
		t.Errorf("upstream has no %s", table)
	}
	if found < 90 {
		t.Errorf("found %d tests of upstream, want at least 90", found)
	}
}

// testFiles returns the test files of a folder and those below it, by path.
func testFiles(t *testing.T, folder string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		files[filepath.ToSlash(relative)] = file
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// rowsOf returns the number of rows of a test: the length of the longest list in it whose elements
// have a name, or 0.
func rowsOf(f *ast.FuncDecl) int {
	rows := 0
	ast.Inspect(f.Body, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if _, isList := lit.Type.(*ast.ArrayType); isList {
			rows = max(rows, len(slices.DeleteFunc(slices.Clone(lit.Elts), func(e ast.Expr) bool { return !isNamed(e) })))
		}
		return true
	})
	return rows
}

// isNamed reports whether an element of a list has a name: a field for one, or a text as its first
// element.
func isNamed(e ast.Expr) bool {
	row, ok := e.(*ast.CompositeLit)
	if !ok || len(row.Elts) == 0 {
		return false
	}
	if text, ok := row.Elts[0].(*ast.BasicLit); ok {
		return text.Kind == token.STRING
	}
	return slices.ContainsFunc(row.Elts, func(e ast.Expr) bool {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := field.Key.(*ast.Ident)
		return ok && slices.Contains([]string{"name", "testName", "desc"}, key.Name)
	})
}

// listedRows returns the ids of rowsFile by table.
func listedRows(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(rowsFile)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	table := ""
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(line, "#"):
		case fields[0] == "table":
			table = fields[1] + " " + fields[2]
		default:
			listed[table] = append(listed[table], fields[0])
		}
	}
	return listed
}
