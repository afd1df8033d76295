package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A declaration declares one name, or several together.
type declaration struct {
	kind  token.Token // IMPORT, TYPE, CONST, VAR or FUNC
	names []string    // a new declaration of any of them replaces this one; local name of an import, "Type.method" of a method
	text  string      // including the keyword
	cell  int         // number of the cell
	line  int
	// pure reports whether the declaration has no side effects: a cell that does not use it behaves
	// as if it did not exist.
	pure bool
}

// key returns the key of a declaration in a memory.
func (d declaration) key() string { return d.kind.String() + " " + strings.Join(d.names, ",") }

// parseGo returns the declarations of a cell and the body of its main function. Line numbers are
// those of the cell.
func parseGo(cell int, source string) (decls []declaration, main string, line int, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, cellFile(cell), source, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", 0, err
	}
	p := goParser{cell: cell, source: source, set: set}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "main" && d.Body != nil {
				main, line = p.text(d.Body), p.line(d.Body)
				continue
			}
			p.function(d)
		case *ast.GenDecl:
			p.general(d)
		}
	}
	return p.decls, main, line, nil
}

// A goParser collects the declarations of a cell.
type goParser struct {
	cell   int
	source string
	set    *token.FileSet
	decls  []declaration
}

func (p *goParser) text(n ast.Node) string {
	return p.source[p.set.Position(n.Pos()).Offset:p.set.Position(n.End()).Offset]
}

func (p *goParser) line(n ast.Node) int { return p.set.Position(n.Pos()).Line }

func (p *goParser) add(n ast.Node, kind token.Token, keyword string, quiet bool, names ...string) {
	p.decls = append(p.decls, declaration{
		kind: kind, names: names, text: keyword + p.text(n), cell: p.cell, line: p.line(n), pure: quiet,
	})
}

func (p *goParser) function(d *ast.FuncDecl) {
	d.Doc = nil
	name := d.Name.Name
	if d.Recv == nil {
		p.add(d, token.FUNC, "", name != "init" && !strings.HasPrefix(name, "init_"), name)
		return
	}
	owner := receiver(d.Recv.List[0].Type)
	// A method added later can change an earlier cell: fmt finds it by reflection.
	pure := slices.ContainsFunc(p.decls,
		func(d declaration) bool { return d.kind == token.TYPE && d.names[0] == owner })
	p.add(d, token.FUNC, "", pure, owner+"."+name)
}

// receiver returns the type name of a method's receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func (p *goParser) general(d *ast.GenDecl) {
	if d.Tok == token.CONST {
		// Constants of one block depend on each other.
		var names []string
		for _, spec := range d.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				names = append(names, name.Name)
			}
		}
		p.add(d, token.CONST, "", true, names...)
		return
	}
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ImportSpec:
			p.add(spec, token.IMPORT, "import ", true, importKey(spec))
		case *ast.TypeSpec:
			p.add(spec, token.TYPE, "type ", true, spec.Name.Name)
		case *ast.ValueSpec:
			p.variables(spec)
		}
	}
}

// variables adds each variable as a separate declaration, unless one call initializes several.
func (p *goParser) variables(spec *ast.ValueSpec) {
	if len(spec.Values) > 0 && len(spec.Values) != len(spec.Names) {
		var names []string
		for _, name := range spec.Names {
			names = append(names, name.Name)
		}
		p.add(spec, token.VAR, "var ", false, names...)
		return
	}
	for i, name := range spec.Names {
		text, quiet := "var "+name.Name, true
		if spec.Type != nil {
			text += " " + p.text(spec.Type)
		}
		if len(spec.Values) > 0 {
			text, quiet = text+" = "+p.text(spec.Values[i]), !hasEffect(spec.Values[i])
		}
		p.add(spec, token.VAR, "", quiet, name.Name)
		p.decls[len(p.decls)-1].text = text
	}
}

// hasEffect reports whether evaluating an expression may have a side effect. Unknown expressions
// do.
func hasEffect(e ast.Expr) bool {
	does := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case nil, *ast.BasicLit, *ast.Ident, *ast.CompositeLit, *ast.KeyValueExpr, *ast.SelectorExpr, *ast.ArrayType, *ast.MapType,
			*ast.StructType, *ast.FieldList, *ast.Field, *ast.ParenExpr:
		case *ast.FuncLit:
			return false
		case *ast.UnaryExpr:
			does = does || n.Op == token.ARROW
		default:
			does = true
		}
		return !does
	})
	return does
}

// lastWord matches GoNB's guess of a package name at the end of an import path.
var lastWord = regexp.MustCompile(`\w+\s*$`)

// importKey returns GoNB's key of an import.
func importKey(spec *ast.ImportSpec) string {
	importPath, _ := strconv.Unquote(spec.Path.Value)
	if spec.Name == nil {
		return lastWord.FindString(importPath)
	}
	if name := spec.Name.Name; name != "." && name != "_" {
		return name
	}
	return spec.Name.Name + importPath
}

var (
	majorVersion = regexp.MustCompile(`^v[0-9]+$`)
	dotVersion   = regexp.MustCompile(`\.v[0-9]+$`)
)

// assumedName returns the likely name of a package, derived from its path.
func assumedName(importPath string) string {
	base := path.Base(importPath)
	if majorVersion.MatchString(base) && path.Dir(importPath) != "." {
		base = path.Base(path.Dir(importPath))
	}
	return strings.TrimPrefix(dotVersion.ReplaceAllString(base, ""), "go-")
}

// A memory is the set of declarations after some cells, by key.
type memory map[string]declaration

// with returns the memory after a cell. Declarations of the cell replace earlier ones of the same
// name.
func (m memory) with(decls []declaration) (memory, error) {
	after := memory{}
	for key, d := range m {
		after[key] = d
	}
	for _, d := range decls {
		for key, old := range after {
			if old.kind != d.kind || old.cell == d.cell {
				continue
			}
			replaced := func(name string) bool { return slices.Contains(d.names, name) }
			switch {
			case !slices.ContainsFunc(old.names, replaced):
			case d.kind == token.CONST &&
				slices.ContainsFunc(old.names, func(name string) bool { return !replaced(name) }):
				return nil, fmt.Errorf("%s:%d: cannot redeclare %s alone: declare all constants of the earlier block together", cellFile(d.cell), d.line, strings.Join(d.names, ", "))
			default:
				delete(after, key)
			}
		}
		key := d.key()
		if strings.Contains(key, " _") {
			key += fmt.Sprintf("~%d.%d", d.cell, d.line) // unnamed declarations are never replaced
		}
		after[key] = d
	}
	return after, nil
}

// isIndependent reports whether the declarations cannot affect earlier cells: their names are new,
// and they have no side effects. If optimistic, it assumes that initializing variables has no
// visible effect.
func (m memory) isIndependent(decls []declaration, hopeful bool) bool {
	for _, d := range decls {
		if !d.pure && !(hopeful && d.kind == token.VAR) {
			return false
		}
		for _, name := range d.names {
			if name != "_" && (types.Universe.Lookup(name) != nil || m.has(name)) {
				return false
			}
		}
	}
	return true
}

func (m memory) has(name string) bool {
	for _, d := range m {
		if slices.Contains(d.names, name) {
			return true
		}
	}
	return false
}

// sorted returns all declarations of a kind in GoNB's order, which is by name.
func (m memory) sorted(kind token.Token) []declaration {
	var decls []declaration
	for _, d := range m {
		if d.kind == kind {
			decls = append(decls, d)
		}
	}
	slices.SortFunc(decls, func(a, b declaration) int {
		if c := strings.Compare(a.key(), b.key()); c != 0 {
			return c
		}
		return 1000*(a.cell-b.cell) + a.line - b.line
	})
	return decls
}
