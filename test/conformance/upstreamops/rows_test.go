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
	for _, section := range sections {
		title, body, _ := strings.Cut(section, "\n")
		words := strings.Fields(title)
		listed := listedRows(body)
		for _, decl := range upstreamFile(t, "k8s.io/kubernetes/pkg/"+words[0], words[1]).Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			got, there := listed[f.Name.Name]
			want := namesOfRows(f)
			delete(listed, f.Name.Name)
			switch {
			case !there:
				t.Errorf("%s: %s not listed", words[1], f.Name.Name)
			case slices.Equal(got, none):
			case !slices.Equal(got, want):
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

func upstreamFile(t *testing.T, pkg, file string) *ast.File {
	t.Helper()
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(folder)), file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// namesOfRows returns the sorted names of the rows of a test's table.
func namesOfRows(f *ast.FuncDecl) []string {
	var names []string
	ast.Inspect(f.Body, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isName := kv.Key.(*ast.Ident)
		lit, isText := kv.Value.(*ast.BasicLit)
		if isName && !isText {
			return false // the fields of a row are no rows
		}
		if !isName || !isText || !slices.Contains([]string{"name", "testName", "testID", "desc"}, key.Name) {
			return true
		}
		name := lit.Value
		if text, err := strconv.Unquote(name); err == nil {
			name = text
		}
		names = append(names, name)
		return true
	})
	slices.Sort(names)
	return names
}
