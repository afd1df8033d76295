package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/gonb"
)

// smallLesson is a lesson whose notebook is committed with its outputs.
const smallLesson = "testdata/01-a-small-lesson"

func TestNotebookMatchesItsLesson(t *testing.T) {
	made, err := makeNotebook(smallLesson)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := readNotebook(notebookPath(smallLesson))
	if err != nil {
		t.Fatal(err)
	}
	if difference := sourceDifference(committed, made); difference != "" {
		t.Errorf("(-committed +generated)\n%s", difference)
	}
}

func TestMakeNotebookRejectsInvalidLessons(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"no main", "func step() {}", "no function main"},
		{"more than steps in main", "func main() {\n\tx := 1\n\t_ = x\n}", "main.go:4: invalid statement in main"},
		{"a step with parameters in main", "func main() {\n\tstep(1)\n}\nfunc step(int) {}", "invalid statement in main"},
		{"a step with a result", "func main() {\n\tstep()\n}\nfunc step() error { return nil }", "step step has parameters or results"},
		{"steps out of order", "func main() {\n\ta()\n\tb()\n}\nfunc b() {}\nfunc a() {}", "main.go:7: step b out of order"},
		{"a step twice", "func main() {\n\ta()\n\ta()\n}\nfunc a() {}", "main calls a twice"},
		{"an undefined step", "func main() {\n\ta()\n}", "a is not a function"},
		{"a step that is called by another", "func main() {\n\ta()\n\tb()\n}\nfunc a() {}\nfunc b() { a() }", "main.go:8: call of step a"},
		{"a declaration with text after its use", "func main() {\n\ta()\n\tb()\n}\nfunc a() { c() }\n\n// # Text\nfunc c() {}\nfunc b() {}", "main.go:7: c declared in a later cell"},
		{"a declaration after the last step", "func main() {\n\ta()\n}\nfunc a() {}\nfunc c() {}", "main.go:7: unused declaration c after the last step"},
		{"a variable that changes", "func main() {\n\ta()\n}\nvar x int\nfunc a() { x = 1 }", "main.go:7: assignment to x"},
		{"a field that changes", "func main() {\n\ta()\n}\nvar x struct{ a []int }\nfunc a() { x.a[0]++ }", "assignment to x"},
		{"a line that is a command in a notebook", "func main() {\n\ta()\n}\nfunc a() {\n\t_ = `\n!rm`\n}", `line "!rm`},
		{"a line that GoNB removes", "func main() {\n\ta()\n}\nfunc a() {\n\tpackages := 1\n\t_ = packages\n}", `line "packages := 1"`},
		{"two imports of a name", "import \"k8s.io/api/core/v1\"\nimport \"k8s.io/api/storage/v1\"\nfunc main() {\n}", `duplicate import name "v1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte("package main\n\n"+c.source+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := makeNotebook(folder); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// made returns the cells of the notebook of a lesson, one per line, with ID and source.
func made(t *testing.T, source string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "09-so")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := makeNotebook(folder)
	if err != nil {
		t.Fatal(err)
	}
	var cells []string
	for i, c := range n.cells {
		cells = append(cells, c.name(i)+": "+strings.ReplaceAll(c.source(), "\n", "|"))
	}
	return strings.Join(cells, "\n")
}

func TestLocalNamesAreNotDeclarations(t *testing.T) {
	got := made(t, "package main\n\nfunc main() {\n\ta()\n\tb()\n}\n\nvar x = 1\n\nfunc a() {\n\tx := 2\n\tx++\n\tc := x\n\t_ = c\n}\n\nvar c = 1\n\nfunc b() { _ = c }\n")
	want := "introduction: # 09 So\nstep-a: var x = 1||%%|x := 2|x++|c := x|_ = c\nstep-b: var c = 1||%%|_ = c"
	if got != want {
		t.Errorf("cells\n%s\nwant\n%s", got, want)
	}
}

func TestStepWithEmptyBodyIsText(t *testing.T) {
	got := made(t, "package main\n\nfunc main() {\n\ta()\n\tb()\n\tc()\n}\n\nfunc a() {\n\tprintln()\n}\n\nconst d = 1\n\n// Because.\nfunc b() {}\n\nfunc c() {\n\tprintln(d)\n}\n")
	want := "introduction: # 09 So\nstep-a: %%|println()\ndeclare-d: const d = 1\ntext-b: Because.\nstep-c: %%|println(d)"
	if got != want {
		t.Errorf("cells\n%s\nwant\n%s", got, want)
	}
}

// TestLessonsHavePicturesAndAnswers checks the notebooks of the lessons, as a reader sees them without Jupyter.
func TestLessonsHavePicturesAndAnswers(t *testing.T) {
	paths, err := filepath.Glob("../../examples/*/*.ipynb")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d notebooks, %v", len(paths), err)
	}
	for _, path := range paths {
		n, err := readNotebook(path)
		if err != nil {
			t.Fatal(err)
		}
		forms := map[string]int{}
		answers := 0
		for _, c := range n.cells {
			if !c.isCode() && strings.HasPrefix(c.source(), "<details>") {
				answers++
			}
			outputs, _ := c.doc["outputs"].([]any)
			for _, output := range outputs {
				for form := range dataOf(output) {
					forms[form]++
				}
			}
		}
		if forms[pngMIME] == 0 || forms[gonb.SVG] > 0 || forms[gonb.HTML] == 0 || answers == 0 {
			t.Errorf("%s: %d folded answers, outputs %v; want answers, %s, %s and no %s",
				filepath.Base(path), answers, forms, pngMIME, gonb.HTML, gonb.SVG)
		}
	}
}

func TestCellsOfDeclarations(t *testing.T) {
	got := made(t, `// Package comment.
package main

import "fmt"

func main() {
	first()
	second()
}

// T is for both.
type T int

// ## A heading
//
// Text.
var v T

// one is a helper.
func one() {}

// The text of the first step.
func first() {
	// Here it prints.
	fmt.Println(v)

	one()
}

// # Another heading
const c = 1

func second() {
	fmt.Println(c)
}
`)
	want := `introduction: # 09 So||Package comment.
imports: import "fmt"
declare-T: // T is for both.|type T int
text-v: ## A heading||Text.
declare-v: var v T||// one is a helper.|func one() {}
text-first: The text of the first step.
step-first: %%|// Here it prints.|fmt.Println(v)||one()
text-c: ## Another heading
step-second: const c = 1||%%|fmt.Println(c)`
	if got != want {
		t.Errorf("cells\n%s\nwant\n%s", got, want)
	}
}

func TestUsedDeclarationsPrecedeTheStep(t *testing.T) {
	got := made(t, `package main

func main() {
	first()
	second()
}

// # A heading
func helper() { below() }

// The text of the first step.
func first() { helper(); other(T{}) }

func below() { deeper() }

// other has a comment.
func other(T) {}

type T struct{}

func (T) Method() { methods() }

func deeper() {}

func second() { other(T{}) }

func methods() {}
`)
	want := `introduction: # 09 So
text-helper: ## A heading
declare-helper: func helper() { below() }||func below() { deeper() }||func deeper() {}
text-first: The text of the first step.
step-first: // other has a comment.|func other(T) {}||type T struct{}||func (T) Method() { methods() }||func methods() {}||%%|helper(); other(T{})
step-second: %%|other(T{})`
	if got != want {
		t.Errorf("cells\n%s\nwant\n%s", got, want)
	}
}

func TestCommentsBecomeMarkdown(t *testing.T) {
	for _, c := range []struct {
		name, comment, want string
		first               bool
	}{
		{"a title", "# Title\n\nText\nover lines.", "# Title\n\nText\nover lines.", true},
		{"a heading", "# Heading\n\nText", "## Heading\n\nText", false},
		{"Markdown within a line", "The `claim` is *Bound*, a_b.", "The `claim` is *Bound*, a_b.", false},
		{"a block of code", "See:\n\n\tkubectl get pvc\n\t  -A\n\nThen.", "See:\n\n```\nkubectl get pvc\n  -A\n```\n\nThen.", false},
		{"a list", "These:\n  - one\n    more\n  - two", "These:\n\n- one\n  more\n- two", false},
		{"a numbered list", "These:\n 1. one\n 2. two", "These:\n\n1. one\n2. two", false},
		{"links", "See [here] and https://kubernetes.io.\n\n[here]: https://example.org", "See [here] and https://kubernetes.io.\n\n[here]: https://example.org", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := markdown(c.comment, c.first); got != c.want {
				t.Errorf("markdown\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
