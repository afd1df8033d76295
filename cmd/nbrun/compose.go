package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// cellEnv selects the cell that a program for several cells runs.
const cellEnv = "NBRUN_CELL"

// cellFile returns the file name of a cell in compiler errors and stack traces.
func cellFile(cell int) string { return fmt.Sprintf("cell-%d.go", cell) }

func mainName(cell int) string { return fmt.Sprintf("nbrunCell%d", cell) }

// compose returns the source of a program for the cells: all declarations in memory, and the main
// function of each cell.
func compose(m memory, cells []*code) (program, dispatch string, err error) {
	var b strings.Builder
	for _, kind := range []token.Token{token.TYPE, token.CONST, token.VAR, token.FUNC} {
		for _, d := range m.sorted(kind) {
			text := d.text
			if kind == token.FUNC && strings.HasPrefix(d.names[0], "init_") {
				text = strings.Replace(text, d.names[0], "init", 1)
			}
			fmt.Fprintf(&b, "//line %s:%d\n%s\n\n", cellFile(d.cell), d.line, text)
		}
	}
	var cases strings.Builder
	for _, c := range cells {
		block, line := c.main, c.mainLine
		if block == "" {
			block, line = "{ flag.Parse() }", 1
		}
		fmt.Fprintf(&b, "//line %s:%d\nfunc %s() %s\n\n", cellFile(c.number), line, mainName(c.number), block)
		fmt.Fprintf(&cases, "\tcase \"%d\":\n\t\t%s()\n", c.number, mainName(c.number))
	}
	body := b.String()
	imports, err := neededImports(m, body)
	if err != nil {
		return "", "", err
	}
	dispatch = fmt.Sprintf("package main\n\nimport \"os\"\n\nfunc main() {\n\tswitch os.Getenv(%q) {\n%s\t}\n}\n",
		cellEnv, cases.String())
	return "package main\n\n" + imports + body, dispatch, nil
}

// neededImports returns the imports that the program uses, as goimports would keep them, and flag
// for the main functions. It adds no other imports: a notebook imports what it uses.
func neededImports(m memory, body string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package main\n"+body, 0)
	if err != nil {
		return "", err
	}
	used := map[string]bool{}
	for _, id := range file.Unresolved {
		used[id.Name] = true
	}
	var b strings.Builder
	for _, d := range m.sorted(token.IMPORT) {
		spec := strings.TrimPrefix(d.text, "import ")
		name, _, aliased := strings.Cut(spec, " ")
		if !aliased || strings.HasPrefix(name, `"`) {
			importPath, err := strconv.Unquote(spec)
			if err != nil {
				return "", err
			}
			name = assumedName(importPath)
		}
		if name == "flag" {
			used["flag"] = false // import it only once
			fmt.Fprintf(&b, "//line %s:%d\nimport %s\n", cellFile(d.cell), d.line, spec)
			continue
		}
		if name == "." || name == "_" || used[name] {
			fmt.Fprintf(&b, "//line %s:%d\nimport %s\n", cellFile(d.cell), d.line, spec)
		}
	}
	if used["flag"] {
		b.WriteString("import \"flag\"\n")
	}
	return b.String(), nil
}

// Patterns in compiler errors and stack traces.
var (
	cellPlace  = regexp.MustCompile(`(?:[^\s:]*/)?cell-(\d+)\.go:(\d+)(?::\d+)?`)
	mainCalled = regexp.MustCompile(`main\.nbrunCell\d+\(`)
	frameCall  = regexp.MustCompile(`\((?:0x[0-9a-f]+|[{}?, ]|\.\.\.)*\)$`)
	signalSent = regexp.MustCompile(`^(\[signal [^\]]*?)(?: code=0x[0-9a-f]+| addr=0x[0-9a-f]+| pc=0x[0-9a-f]+)+\]$`)
	goroutine  = regexp.MustCompile(`^goroutine \d+ \[`)
)

// places replaces file positions by cell positions in GoNB's format, without folders of this
// machine.
func places(text string) string {
	return mainCalled.ReplaceAllString(cellPlace.ReplaceAllString(text, "Cell[$1]: Line $2"), "main.main(")
}

// untrace reduces stack traces to what is the same in every run: the called functions of cells and
// their positions.
func untrace(text string) string {
	var b strings.Builder
	lines := strings.SplitAfter(text, "\n")
	inTrace := false
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSuffix(lines[i], "\n")
		if goroutine.MatchString(line) {
			inTrace = true
			fmt.Fprintf(&b, "%s\n", goroutine.ReplaceAllString(line, "goroutine ["))
			continue
		}
		if !inTrace || line == "" {
			b.WriteString(signalSent.ReplaceAllString(line, "$1]") + lines[i][len(line):])
			continue
		}
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") {
			if place := cellPlace.FindString(lines[i+1]); place != "" {
				fmt.Fprintf(&b, "%s\n\t%s\n", frameCall.ReplaceAllString(line, "()"), place)
			}
			i++
		}
	}
	return places(b.String())
}
