package upstreampv_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rowsFile lists the rows of upstream's tables with cases of pvcontroller.
var rowsFile = filepath.Join("..", "..", "..", "pvcontroller", "testdata", "cases", "rows")

// number begins the name of a row.
var number = regexp.MustCompile(`^\d+(-\d+)+ `)

// TestRowsAreThoseOfUpstream compares the listed rows with the source of upstream's tests: every
// test of those files, with the numbers of its rows, or with their count if the numbers are ours.
func TestRowsAreThoseOfUpstream(t *testing.T) {
	const pkg = "k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := listedRows(t)
	files := map[string]bool{}
	for table := range listed {
		file, _, _ := strings.Cut(table, " ")
		files[file] = true
	}
	for file := range files { // the order does not matter
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(folder)), file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			table := file + " " + f.Name.Name
			compareRows(t, table, listed[table], namesOfRows(f))
			delete(listed, table)
		}
	}
	for table := range listed {
		t.Errorf("upstream has no %s", table)
	}
}

// compareRows compares the ids of one table with the names of upstream's rows.
func compareRows(t *testing.T, table string, ids, names []string) {
	t.Helper()
	if len(ids) == 0 {
		t.Errorf("%s is not listed", table)
		return
	}
	if !number.MatchString(ids[0] + " ") { // our own numbers
		if want := max(len(names), 1); len(ids) != want {
			t.Errorf("%s: %d rows are listed, upstream has %d", table, len(ids), want)
		}
		return
	}
	var numbers []string
	for _, name := range names {
		numbers = append(numbers, strings.TrimSpace(number.FindString(name)))
	}
	for i, id := range ids {
		ids[i] = strings.TrimRight(id, "ab")
	}
	slices.Sort(ids)
	slices.Sort(numbers)
	if !slices.Equal(numbers, ids) {
		t.Errorf("%s: upstream has the rows\n%v, listed are\n%v", table, numbers, ids)
	}
}

// namesOfRows returns the names of the rows of a table: fields "name", and texts that begin with a
// number.
func namesOfRows(f *ast.FuncDecl) []string {
	var names []string
	add := func(e ast.Expr, must bool) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && (must || number.MatchString(text)) {
				names = append(names, text)
			}
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); !ok {
				add(e, false)
			} else if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "name" {
				add(kv.Value, true)
			}
		}
		return true
	})
	return names
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
		case len(fields) == 0 || fields[0] == "#":
		case fields[0] == "table":
			table = fields[1] + " " + fields[2]
		default:
			listed[table] = append(listed[table], fields[0])
		}
	}
	return listed
}
