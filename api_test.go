package volsim_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update", false, "rewrite docs/api.txt from the sources")

// publicMax bounds the exported package-level identifiers of all public packages together. The components for snapshots, health
// and populators, and the drivers of cluster.Config, took it from 550 to 570; rules about snapshots and the checks of drivers to 580;
// users and roles to 590; what runs containers to 610; containers as processes to 611; what a search of all orders sees of a world to 622; what a search exercised to 629;
// workloads from a schema to 630.
const publicMax = 630

// apiFile lists the public API, one identifier a line.
const apiFile = "docs/api.txt"

// TestPublicAPIIsListed fails when an exported identifier of a public package is added, changed or removed without its
// line in docs/api.txt. Rewrite the file with: go test . -run TestPublicAPIIsListed -update
func TestPublicAPIIsListed(t *testing.T) {
	lines, packageLevel := publicAPI(t)
	if packageLevel > publicMax {
		t.Errorf("%d exported package-level identifiers, more than %d: unexport one or move it below internal/", packageLevel, publicMax)
	}
	got := strings.Join(lines, "\n") + "\n"
	if *updateAPI {
		if err := os.WriteFile(apiFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
	for _, line := range lines {
		if !slices.Contains(listed, line) {
			t.Errorf("not in %s: %s", apiFile, line)
		}
	}
	for _, line := range listed {
		if !slices.Contains(lines, line) {
			t.Errorf("in %s, but not in the sources: %s", apiFile, line)
		}
	}
}

// publicAPI returns the exported API of the public packages as sorted lines, and the number of package-level identifiers.
func publicAPI(t *testing.T) (lines []string, packageLevel int) {
	t.Helper()
	linux := build.Default
	linux.GOOS, linux.GOARCH = "linux", "amd64"
	for _, s := range sources(t) {
		if s.test || !isPublic(s.folder) || s.file.Name.Name == "main" {
			continue
		}
		if match, err := linux.MatchFile(filepath.FromSlash(s.folder), filepath.Base(s.path)); err != nil || !match {
			continue
		}
		for _, decl := range s.file.Decls {
			for _, item := range exported(decl) {
				lines = append(lines, s.folder+": "+item.text)
				if item.packageLevel {
					packageLevel++
				}
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines), packageLevel
}

// isPublic reports whether other modules can import a folder and are meant to.
func isPublic(folder string) bool {
	for element := range strings.SplitSeq(folder, "/") {
		if element == "internal" {
			return false
		}
	}
	first, _, _ := strings.Cut(folder, "/")
	return folder != "." && first != "cmd" && first != "examples"
}

// An apiItem is one exported identifier.
type apiItem struct {
	text         string
	packageLevel bool
}

// exported returns the exported identifiers of a declaration: functions and methods with their signatures, types with
// their exported fields and methods, constants and variables by name.
func exported(decl ast.Decl) []apiItem {
	var items []apiItem
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if receiver := receiverOf(d); d.Name.IsExported() && (receiver == "" || ast.IsExported(receiver)) {
			signature := &ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}
			items = append(items, apiItem{oneLine(signature), receiver == ""})
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						items = append(items, apiItem{d.Tok.String() + " " + name.Name, true})
					}
				}
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					items = append(items, exportedType(s)...)
				}
			}
		}
	}
	return items
}

func exportedType(s *ast.TypeSpec) []apiItem {
	var members *ast.FieldList
	kind := ""
	switch t := s.Type.(type) {
	case *ast.StructType:
		kind, members = "struct", t.Fields
	case *ast.InterfaceType:
		kind, members = "interface", t.Methods
	default:
		kind = oneLine(s.Type)
	}
	items := []apiItem{{"type " + s.Name.Name + " " + kind, true}}
	if members == nil {
		return items
	}
	for _, field := range members.List {
		for _, name := range field.Names {
			if name.IsExported() {
				items = append(items, apiItem{fmt.Sprintf("type %s %s: %s %s", s.Name.Name, kind, name.Name, oneLine(field.Type)), false})
			}
		}
		if len(field.Names) == 0 {
			items = append(items, apiItem{fmt.Sprintf("type %s %s: %s", s.Name.Name, kind, oneLine(field.Type)), false})
		}
	}
	return items
}

// receiverOf returns the name of a method's receiver type, and "" for a function.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// oneLine prints a node of syntax on one line.
func oneLine(node any) string {
	var out bytes.Buffer
	if err := printer.Fprint(&out, token.NewFileSet(), node); err != nil {
		panic(err)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}
