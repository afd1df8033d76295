package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A lesson is the program that a notebook is generated from.
type lesson struct {
	folder    string
	source    []byte
	set       *token.FileSet
	file      *ast.File
	steps     []string       // functions that main calls, in order
	cellOf    map[any]int    // number of the cell of each declaration; steps have none
	stepCells map[string]int // number of the cell of each step
}

// notebookPath returns the path of the notebook of a lesson.
func notebookPath(folder string) string {
	return filepath.Join(folder, filepath.Base(folder)+".ipynb")
}

// makeNotebook generates the notebook of the lesson in a folder, without outputs.
func makeNotebook(folder string) (*notebook, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	l := &lesson{folder: folder, set: token.NewFileSet(), cellOf: map[any]int{}, stepCells: map[string]int{}}
	path := filepath.Join(folder, "main.go")
	if l.source, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	if l.file, err = parser.ParseFile(l.set, path, l.source, parser.ParseComments); err != nil {
		return nil, err
	}
	if err := l.readMain(); err != nil {
		return nil, err
	}
	n := newNotebook()
	if err := l.addIntroduction(n); err != nil {
		return nil, err
	}
	if err := l.addDeclarations(n); err != nil {
		return nil, err
	}
	return n, l.check()
}

func (l *lesson) errorf(n ast.Node, format string, args ...any) error {
	at := l.set.Position(n.Pos())
	return fmt.Errorf("%s:%d: %w", filepath.Join(filepath.Base(l.folder), "main.go"),
		at.Line, fmt.Errorf(format, args...))
}

// readMain finds the steps, which are the only statements of main.
func (l *lesson) readMain() error {
	for _, d := range l.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name != "main" {
			continue
		}
		for _, s := range f.Body.List {
			var name string
			if e, ok := s.(*ast.ExprStmt); ok {
				if call, ok := e.X.(*ast.CallExpr); ok && len(call.Args) == 0 {
					if id, ok := call.Fun.(*ast.Ident); ok {
						name = id.Name
					}
				}
			}
			if name == "" {
				return l.errorf(s, "invalid statement in main: a lesson's main only calls its steps, functions without parameters and results")
			}
			l.steps = append(l.steps, name)
		}
		return nil
	}
	return fmt.Errorf("%s has no function main", filepath.Join(l.folder, "main.go"))
}

// addIntroduction adds the cells before the first declaration.
func (l *lesson) addIntroduction(n *notebook) error {
	text := markdown(l.file.Doc.Text(), true)
	if !strings.HasPrefix(text, "# ") {
		text = strings.TrimSuffix("# "+title(filepath.Base(l.folder))+"\n\n"+text, "\n\n")
	}
	n.add("markdown", "introduction", text)
	setup, err := l.moduleCommand()
	if err != nil {
		return err
	}
	if setup != "" {
		n.add("code", "module", setup)
	}
	var imports []string
	keys := map[string]bool{}
	for _, d := range l.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.IMPORT {
			continue
		}
		for _, spec := range g.Specs {
			key := importKey(spec.(*ast.ImportSpec))
			if keys[key] {
				return l.errorf(spec,
					"duplicate import name %q, of which GoNB keeps only one: choose another name", key)
			}
			keys[key] = true
		}
		imports = append(imports, l.text(g.Pos(), g.End()))
	}
	if len(imports) > 0 {
		n.add("code", "imports", strings.Join(imports, "\n"))
	}
	return nil
}

// title returns the name of a folder such as 01-a-claim in words.
func title(folder string) string {
	words := strings.Split(folder, "-")
	if _, err := strconv.Atoi(words[0]); err == nil && len(words) > 1 {
		return words[0] + " " + capital(strings.Join(words[1:], " "))
	}
	return capital(strings.Join(words, " "))
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

var moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)

// moduleCommand returns the command that makes the cells use the lesson's module from the clone
// that contains the notebook. It returns "" if the lesson imports nothing from its module.
func (l *lesson) moduleCommand() (string, error) {
	up := ""
	for root := l.folder; ; root, up = filepath.Dir(root), up+"/.." {
		mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if errors.Is(err, fs.ErrNotExist) && root != filepath.Dir(root) {
			continue
		}
		if err != nil {
			return "", nil // no module, so no imports from it
		}
		found := moduleLine.FindSubmatch(mod)
		if found == nil {
			return "", fmt.Errorf("no module directive in %s", filepath.Join(root, "go.mod"))
		}
		module := string(found[1])
		for _, spec := range l.file.Imports {
			if p, _ := strconv.Unquote(spec.Path.Value); p == module || strings.HasPrefix(p, module+"/") {
				return fmt.Sprintf(`!*go mod edit -require %[1]s@v0.0.0 -replace "%[1]s=$%[2]s%[3]s"`, module,
					"GONB_DIR", up), nil
			}
		}
		return "", nil
	}
}

// addDeclarations adds the cells of the declarations, in order.
func (l *lesson) addDeclarations(n *notebook) error {
	w := &builder{lesson: l, notebook: n}
	for _, d := range l.file.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT || isFunc && f.Recv == nil && f.Name.Name == "main" {
			continue
		}
		var err error
		if isFunc && f.Recv == nil && slices.Contains(l.steps, f.Name.Name) {
			err = w.addStep(f)
		} else if _, early := w.cellOf[d]; !early {
			err = w.addDeclaration(d)
		}
		if err != nil {
			return err
		}
	}
	if len(w.kept) > 0 {
		return l.errorf(w.kept[0], "unused declaration %s after the last step", declaredName(w.kept[0]))
	}
	if w.next < len(l.steps) {
		return fmt.Errorf("%s: main calls %s twice, or %s is not a function of this file without parameters and results", filepath.Base(l.folder), l.steps[w.next], l.steps[w.next])
	}
	return nil
}

// A builder adds the declarations of a lesson to its notebook.
type builder struct {
	*lesson
	notebook *notebook
	kept     []ast.Decl // declarations without a cell so far
	texts    []string   // their source texts
	next     int        // index of the next step
}

// addText adds a text cell, after a cell for the kept declarations.
func (w *builder) addText(text, name string) error {
	if err := w.flush(); err != nil {
		return err
	}
	w.notebook.add("markdown", "text-"+name, text)
	return nil
}

// flush adds a cell for the kept declarations.
func (w *builder) flush() error {
	if len(w.kept) == 0 {
		return nil
	}
	if err := w.keepDependencies(); err != nil {
		return err
	}
	w.notebook.add("code", "declare-"+declaredName(w.kept[0]), strings.Join(w.texts, "\n\n"))
	w.kept, w.texts = nil, nil
	return nil
}

// addDeclaration keeps a declaration for the next code cell. If its comment has a heading, that
// becomes a text cell.
func (w *builder) addDeclaration(d ast.Decl) error {
	from := startWithDoc(d)
	if hasHeading(d) {
		if err := w.addText(markdown(docOf(d).Text(), false), declaredName(d)); err != nil {
			return err
		}
		from = d.Pos()
	}
	return w.keep(d, w.text(from, d.End()))
}

func (w *builder) keep(d ast.Decl, text string) error {
	w.cellOf[d] = len(w.notebook.cells)
	w.kept, w.texts = append(w.kept, d), append(w.texts, text)
	return w.checkLines(d, text)
}

// keepDependencies also keeps the declarations that the kept ones use.
func (w *builder) keepDependencies() error {
	for i := 0; i < len(w.kept); i++ { // it grows
		if err := w.keepUsed(w.kept[i]); err != nil {
			return err
		}
	}
	return nil
}

// keepUsed keeps the later declarations that a declaration uses: a program may put important things
// first, a notebook cannot. Declarations with a heading stay in place.
func (w *builder) keepUsed(user ast.Decl) error {
	var err error
	ast.Inspect(user, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || err != nil {
			return err == nil
		}
		d := w.declarationOf(id)
		if d == nil || d == user || hasHeading(d) {
			return true
		}
		if f, isFunc := d.(*ast.FuncDecl); isFunc && slices.Contains(w.steps, f.Name.Name) {
			return true
		}
		for _, d := range w.withMethods(d) {
			if _, early := w.cellOf[d]; !early && err == nil {
				err = w.keep(d, w.text(startWithDoc(d), d.End()))
			}
		}
		return true
	})
	return err
}

// withMethods returns a declaration and the methods of its types.
func (l *lesson) withMethods(d ast.Decl) []ast.Decl {
	decls := []ast.Decl{d}
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.TYPE {
		return decls
	}
	for _, d := range l.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv != nil && slices.ContainsFunc(g.Specs,
			func(s ast.Spec) bool { return s.(*ast.TypeSpec).Name.Name == receiver(f.Recv.List[0].Type) }) {
			decls = append(decls, f)
		}
	}
	return decls
}

// hasHeading reports whether the comment of a declaration begins with a heading, and so is text of
// the lesson.
func hasHeading(d ast.Decl) bool { return strings.HasPrefix(docOf(d).Text(), "#") }

// addStep adds the cells of a step: its text and its body, below the declarations that it uses and
// no earlier cell contains.
func (w *builder) addStep(f *ast.FuncDecl) error {
	name := f.Name.Name
	if w.next >= len(w.steps) || w.steps[w.next] != name {
		return w.errorf(f, "step %s out of order: main calls each step once, in source order", name)
	}
	w.next++
	if f.Type.Params.NumFields() > 0 || f.Type.Results.NumFields() > 0 || f.Type.TypeParams.NumFields() > 0 {
		return w.errorf(f, "step %s has parameters or results: a step has neither", name)
	}
	if text := markdown(f.Doc.Text(), false); text != "" {
		if err := w.addText(text, name); err != nil {
			return err
		}
		if len(f.Body.List) == 0 {
			return nil
		}
	}
	if err := w.keepUsed(f); err != nil {
		return err
	}
	if err := w.keepDependencies(); err != nil {
		return err
	}
	body := w.unindent(f.Body)
	if err := w.checkLines(f, body); err != nil {
		return err
	}
	w.stepCells[name] = len(w.notebook.cells)
	w.notebook.add("code", "step-"+name, strings.Join(append(w.texts, "%%\n"+body), "\n\n"))
	w.kept, w.texts = nil, nil
	return nil
}

// checkLines rejects lines of Go that GoNB would interpret as commands.
func (l *lesson) checkLines(n ast.Node, text string) error {
	for line := range strings.Lines(text) {
		if len(line) > 2 && (line[0] == '%' || line[0] == '!') || strings.HasPrefix(line, "package") {
			return l.errorf(n, "line %q is a command for GoNB: reformat it", strings.TrimSpace(line))
		}
	}
	return nil
}

func (l *lesson) text(from, to token.Pos) string {
	return string(l.source[l.set.Position(from).Offset:l.set.Position(to).Offset])
}

// unindent returns the body of a function with one tab less. Lines within string literals stay
// unchanged.
func (l *lesson) unindent(block *ast.BlockStmt) string {
	kept := map[int]bool{}
	ast.Inspect(block, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			for line := l.set.Position(lit.Pos()).Line + 1; line <= l.set.Position(lit.End()).Line; line++ {
				kept[line] = true
			}
		}
		return true
	})
	number := l.set.Position(block.Lbrace).Line
	var b strings.Builder
	for line := range strings.Lines(l.text(block.Lbrace+1, block.Rbrace)) {
		if !kept[number] {
			line = strings.TrimPrefix(line, "\t")
		}
		b.WriteString(line)
		number++
	}
	return strings.Trim(b.String(), " \n")
}

// docOf returns the comment of a declaration, or nil.
func docOf(d ast.Decl) *ast.CommentGroup {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

// startWithDoc returns the position of a declaration including its comment.
func startWithDoc(d ast.Decl) token.Pos {
	if doc := docOf(d); doc != nil {
		return doc.Pos()
	}
	return d.Pos()
}

func declaredName(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			return receiver(d.Recv.List[0].Type) + "-" + d.Name.Name
		}
		return d.Name.Name
	case *ast.GenDecl:
		switch spec := d.Specs[0].(type) {
		case *ast.TypeSpec:
			return spec.Name.Name
		case *ast.ValueSpec:
			return spec.Names[0].Name
		}
	}
	return "more"
}
