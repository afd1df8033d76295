package upstreamops_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// heading begins a section of UPSTREAM.md about one of upstream's test files: "### PACKAGE FILE in
// FOLDER".
const heading = "### pkg/"

// TestRowsAreThoseOfUpstream compares the rows in UPSTREAM.md with the source of upstream's
// tests.
func TestRowsAreThoseOfUpstream(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "UPSTREAM.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n"+heading)[1:]
	if len(sections) < 4 {
		t.Errorf("%d files are listed, want at least 4", len(sections))
	}
	folders := foldersOf(t, sections)
	for _, section := range sections {
		title, body, _ := strings.Cut(section, "\n")
		words := strings.Fields(title)
		listed := listedRows(body)
		for _, decl := range upstreamFile(t, folders[words[0]], words[1]).Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			got, there := listed[f.Name.Name]
			want, withKeys := namesOfRows(f, false), namesOfRows(f, true)
			delete(listed, f.Name.Name)
			switch {
			case !there:
				t.Errorf("%s: %s not listed", words[1], f.Name.Name)
			case slices.Equal(got, none):
			case !slices.Equal(got, want) && !slices.Equal(got, withKeys):
				t.Errorf("%s %s: listed\n%q, upstream has\n%q", words[1], f.Name.Name, got, want)
			}
		}
		for name := range listed {
			t.Errorf("%s: upstream has no %s", words[1], name)
		}
	}
}

// none replaces the rows of a test without counterparts in volsim.
var none = []string{"none: "}

// listedRows returns the sorted names of upstream's rows in a section, by test; nil for a test
// without rows.
func listedRows(section string) map[string][]string {
	listed := map[string][]string{}
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			break
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 2 || !strings.HasPrefix(cells[0], "Test") {
			continue
		}
		if strings.HasPrefix(cells[1], none[0]) {
			listed[cells[0]] = none
			continue
		}
		var names []string
		for row := range strings.SplitSeq(cells[1], "<br>") {
			if name, _, named := strings.Cut(row, " → "); named {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		listed[cells[0]] = names
	}
	return listed
}

// foldersOf returns the folders of upstream's packages, by the first word of their sections.
func foldersOf(t *testing.T, sections []string) map[string]string {
	t.Helper()
	const root = "k8s.io/kubernetes/pkg/"
	args := []string{"list", "-f", "{{.ImportPath}} {{.Dir}}"}
	for _, section := range sections {
		args = append(args, root+strings.Fields(section)[0])
	}
	slices.Sort(args[3:])
	listed, err := exec.Command("go", slices.Compact(args)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, listed)
	}
	folders := map[string]string{}
	for line := range strings.Lines(string(listed)) {
		pkg, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
		folders[strings.TrimPrefix(pkg, root)] = folder
	}
	return folders
}

func upstreamFile(t *testing.T, folder, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// namesOfRows returns the sorted names of the rows of a test's table: texts of fields; with keys, also of
// the field test, and keys of a map.
func namesOfRows(f *ast.FuncDecl, keys bool) []string {
	var names []string
	ast.Inspect(f.Body, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if lit, ok := kv.Key.(*ast.BasicLit); ok && keys && lit.Kind == token.STRING && isRow(kv.Value) {
			names = append(names, unquoted(lit))
			return false
		}
		key, isName := kv.Key.(*ast.Ident)
		lit, isText := kv.Value.(*ast.BasicLit)
		if isName && !isText {
			return false // the fields of a row are no rows
		}
		if !isName || !isText || !slices.Contains([]string{"name", "testName", "testID", "desc"}, key.Name) && (!keys || key.Name != "test") {
			return true
		}
		names = append(names, unquoted(lit))
		return true
	})
	slices.Sort(names)
	return names
}

// isRow reports whether a value is that of a table whose rows have keys: a struct with named fields, without its type.
func isRow(value ast.Expr) bool {
	row, ok := value.(*ast.CompositeLit)
	return ok && row.Type == nil && !slices.ContainsFunc(row.Elts, func(e ast.Expr) bool {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		_, named := field.Key.(*ast.Ident)
		return !named
	})
}

func unquoted(lit *ast.BasicLit) string {
	if text, err := strconv.Unquote(lit.Value); err == nil {
		return text
	}
	return lit.Value
}
