//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A runResult is the result of running a notebook.
type runResult struct {
	cost cost
	err  error
	text string // outputs of all cells, each line after the number of its cell
}

// runCells runs a notebook of these code cells and checks that no temporary folder remains.
func runCells(t *testing.T, ctx context.Context, limit time.Duration, cells ...string) runResult {
	t.Helper()
	n := newNotebook()
	for _, source := range cells {
		n.add("code", "x", source)
	}
	return runTest(t, ctx, limit, n)
}

func runTest(t *testing.T, ctx context.Context, limit time.Duration, n *notebook) runResult {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	folder := t.TempDir()
	var r runResult
	r.cost, r.err = runNotebook(ctx, n, folder, limit, false)
	var b strings.Builder
	for i, c := range n.cells {
		for _, line := range outputLines(c) {
			b.WriteString(string(rune('1'+i)) + " " + line + "\n")
		}
	}
	r.text = b.String()
	left, err := filepath.Glob(filepath.Join(temp, "nbrun-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("leaked folders: %q %v", left, err)
	}
	return r
}

const imports = "import (\n\t\"fmt\"\n\t\"os\"\n)"

func TestCellsRunAsInGoNB(t *testing.T) {
	for _, c := range []struct {
		name  string
		cells []string
		want  string
	}{
		{
			"a cell is a program, and variables start over",
			[]string{imports, "var n = 41", "%%\nn++\nfmt.Println(n)", "%%\nfmt.Println(n)"},
			"3 [stdout]\n3 42\n4 [stdout]\n4 41\n",
		},
		{
			"declarations replace earlier ones of the same name",
			[]string{
				imports, "func f() int { return 1 }\ntype T struct{ a int }\nvar v, w = 1, 2\nconst c = 1",
				"%%\nfmt.Println(f(), T{}, v, w, c)",
				"func f() string { return \"two\" }\ntype T struct{ b, c int }\nvar v, w = 3, 4\nconst c = 5",
				"%%\nfmt.Println(f(), T{}, v, w, c)",
			},
			"3 [stdout]\n3 1 {0} 1 2 1\n5 [stdout]\n5 two {0 0} 3 4 5\n",
		},
		{
			"variables are remembered separately",
			[]string{imports + "\nvar v, w int = 1, 2\nvar x, y bool", "var w, x = 3, 4", "%%\nfmt.Println(v, w, x, y)"},
			"3 [stdout]\n3 1 3 4 false\n",
		},
		{
			"variables initialized by one call stay together",
			[]string{imports + "\nfunc three() (a, b, c int) { return 3, 5, 7 }\nvar a, _, c = three()", "%%\nfmt.Println(a, c)", "var c = 1.5", "var a = c", "%%\nfmt.Println(a, c)"},
			"2 [stdout]\n2 3 7\n5 [stdout]\n5 1.5 1.5\n",
		},
		{
			"init functions run in the order of their names, and init is remembered",
			[]string{imports, "func init_b() { fmt.Println(\"b\") }", "func init() { fmt.Println(0) }", "func init_a() { fmt.Println(\"a\") }", "func init() { fmt.Println(1) }"},
			"2 [stdout]\n2 b\n3 [stdout]\n3 0\n3 b\n4 [stdout]\n4 0\n4 a\n4 b\n5 [stdout]\n5 1\n5 a\n5 b\n",
		},
		{
			"main is not remembered, and may be written out",
			[]string{"import \"fmt\"\nfunc main() { fmt.Println(\"once\") }", "var x = 1"},
			"1 [stdout]\n1 once\n",
		},
		{
			"declarations may precede %%, and commands run first",
			[]string{imports + "\nfunc hi() { fmt.Println(\"hi\") }\n%%\nhi()\n!echo shell", "//gonb:%%\nhi()"},
			"1 [stdout]\n1 shell\n1 [stdout]\n1 hi\n2 [stdout]\n2 hi\n",
		},
		{
			"methods stay with their type",
			[]string{imports + "\ntype T int", "%%\nfmt.Println(T(1))", "func (t T) String() string { return \"one\" }", "%%\nfmt.Println(T(1))"},
			"2 [stdout]\n2 1\n4 [stdout]\n4 one\n",
		},
		{
			"initialization runs in each cell from its own on",
			[]string{imports, "%%", "func init_a() { fmt.Println(\"init\") }\nvar v = say()\nfunc say() int { fmt.Println(\"var\"); return 1 }", "%%\nfmt.Println(v)"},
			"3 [stdout]\n3 var\n3 init\n4 [stdout]\n4 var\n4 init\n4 1\n",
		},
		{
			"arguments and environment variables",
			[]string{
				imports + "\nimport \"flag\"\nvar name = flag.String(\"name\", \"default\", \"\")",
				"%env GREETING hello\n%%\nfmt.Println(os.Getenv(\"GREETING\"))", "%% --name=me and you\nfmt.Println(*name, flag.Args())", "%%\nfmt.Println(*name)",
			},
			"2 [stdout]\n2 Set: GREETING=\"hello\"\n2 [stdout]\n2 hello\n3 [stdout]\n3 me [and you]\n4 [stdout]\n4 default\n",
		},
		{
			"shell commands in the folders of notebook and module",
			[]string{
				"!echo text > file\n!*test -f go.mod && echo \\\n  module", "import (\n\"os\"\n\"fmt\"\n)\n%%\ntext, _ := os.ReadFile(\"file\")\nfmt.Printf(\"%s\", text)",
				"!test \"$GONB_DIR\" = \"$PWD\" && test -f \"$GONB_TMP_DIR/go.mod\" && echo both",
			},
			"1 [stdout]\n1 module\n2 [stdout]\n2 text\n3 [stdout]\n3 both\n",
		},
		{
			"only used imports are compiled, under their local names",
			[]string{"import (\n\t\"fmt\"\n\tstr \"strings\"\n\t\"os\"\n\t\"math/rand/v2\"\n\t_ \"embed\"\n)", "%%\nos := str.ToUpper(\"x\")\nfmt.Println(os)", "%%\nfmt.Println(rand.IntN(1))"},
			"2 [stdout]\n2 X\n3 [stdout]\n3 0\n",
		},
		{
			"standard error follows standard output",
			[]string{imports, "%%\nfor range 3 {\n\tfmt.Println(\"out\")\n\tfmt.Fprintln(os.Stderr, \"err\")\n}"},
			"2 [stdout]\n2 out\n2 out\n2 out\n2 [stderr]\n2 err\n2 err\n2 err\n",
		},
		{
			"constants of a group use iota",
			[]string{imports + "\nconst (\n\ta = iota\n\tb\n)", "%%\nfmt.Println(a, b)", "const (\n\tb = iota + 5\n\ta\n)", "%%\nfmt.Println(a, b)"},
			"2 [stdout]\n2 0 1\n4 [stdout]\n4 6 5\n",
		},
		{
			"a redeclared builtin changes only later cells",
			[]string{imports, "%%\nfmt.Println(len(\"four\"))", "func len(string) string { return \"long\" }", "%%\nfmt.Println(len(\"four\"))"},
			"2 [stdout]\n2 4\n4 [stdout]\n4 long\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runCells(t, t.Context(), time.Minute, c.cells...)
			if got.err != nil || got.text != c.want {
				t.Errorf("output\n%s%v\nwant\n%s", got.text, got.err, c.want)
			}
		})
	}
}

func TestCellsThatFail(t *testing.T) {
	for _, c := range []struct {
		name  string
		cells []string
		want  string // outputs
		err   string // within the error
	}{
		{
			"compile error",
			[]string{imports, "%%\nfmt.Println(\"fine\")", "%%\nx := 1\nfmt.Println(y)"},
			"2 [stdout]\n2 fine\n3 [error]\n3 # cells\n3 Cell[3]: Line 2: declared and not used: x\n3 Cell[3]: Line 3: undefined: y\n", "compilation failed",
		},
		{"syntax error", []string{"%%\nfor {"}, "1 [error]\n1 Cell[1]: Line 3: expected '}', found 'EOF'\n", "expected '}'"},
		{"missing import", []string{"%%\nfmt.Println()"}, "1 [error]\n1 # cells\n1 Cell[1]: Line 2: undefined: fmt\n", "undefined: fmt"},
		{
			"panic",
			[]string{imports, "func f(p *int) {\n\tfmt.Println(*p)\n}", "%%\nfmt.Println(\"before\")\nf(nil)"},
			"3 [stdout]\n3 before\n3 [stderr]\n3 panic: runtime error: invalid memory address or nil pointer dereference\n" +
				"3 [signal SIGSEGV: segmentation violation]\n3 \n3 goroutine [running]:\n3 main.f()\n3 \tCell[2]: Line 2\n3 main.main()\n3 \tCell[3]: Line 3\n3 exit status 2\n", "exit status 2",
		},
		{"exit status", []string{imports, "%%\nfmt.Fprintln(os.Stderr, \"why\")\nos.Exit(3)"}, "2 [stderr]\n2 why\n2 exit status 3\n", "exit status 3:\nwhy\n"},
		{"failing shell command", []string{"!echo no; exit 4"}, "1 [stdout]\n1 no\n1 [stderr]\n1 exit status 4\n", "exit status 4"},
		{"unsupported command", []string{"%widgets"}, "1 [error]\n1 line 1: unsupported command \"%widgets\" (have %%, %main, %args, %env, !, !*)\n", "%widgets"},
		{"partly redeclared group", []string{"const (\n\ta = iota\n\tb\n)", "const a = 1"}, "2 [error]\n2 Cell[2]: Line 1: cannot redeclare a alone: declare all constants of the earlier block together\n", "together"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runCells(t, t.Context(), time.Minute, c.cells...)
			if !errors.Is(got.err, errCell) || !strings.Contains(got.err.Error(), c.err) {
				t.Errorf("error %v, want errCell with %q", got.err, c.err)
			}
			if got.text != c.want {
				t.Errorf("output\n%s\nwant\n%s", got.text, c.want)
			}
		})
	}
}

func TestExpectedFailureDoesNotEndTheRun(t *testing.T) {
	n := newNotebook()
	n.add("code", "fails", "import \"os\"\n%%\nos.Exit(1)")
	n.cells[0].doc["metadata"] = map[string]any{"tags": []any{mayFailTag}}
	n.add("code", "next", "import \"fmt\"\n%%\nfmt.Println(\"next\")")
	got := runTest(t, t.Context(), time.Minute, n)
	if want := "1 [stderr]\n1 exit status 1\n2 [stdout]\n2 next\n"; got.err != nil || got.text != want {
		t.Errorf("output\n%s%v\nwant\n%s", got.text, got.err, want)
	}
}

func TestRunawayCellIsKilled(t *testing.T) {
	got := runCells(t, t.Context(), time.Second, imports, "%%\nfmt.Println(\"on\")\nfor {\n}")
	if got.err == nil || !strings.Contains(got.err.Error(), "time limit of 1s") || !strings.Contains(got.text, "2 on\n") {
		t.Errorf("output %q, error %v, want the printed text and a time limit", got.text, got.err)
	}
}

func TestBackgroundProcessesAreKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "open")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	// The background process inherits the writing end, which the kernel closes when the process ends.
	if got := runCells(t, t.Context(), time.Minute, "!exec 3> "+path+"; sleep 1000 & echo $! >&3"); got.err != nil {
		t.Fatal(got.err)
	}
	if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	pid, err := io.ReadAll(pipe)
	if len(pid) == 0 || err != nil {
		t.Errorf("process %q of the cell still runs: %v", strings.TrimSpace(string(pid)), err)
	}
}

func TestInterruptEndsTheCell(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started := filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = os.ReadFile(started) // returns when the cell has opened the pipe
		cancel()
	}()
	got := runCells(t, ctx, time.Hour, "!echo > "+started+"; sleep 1000")
	if !errors.Is(got.err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", got.err)
	}
}

func TestOutputIsLimited(t *testing.T) {
	got := runCells(t, t.Context(), time.Minute, "!head -c 20000000 /dev/zero")
	if got.err == nil || !strings.Contains(got.err.Error(), "exceeds 16 MiB") {
		t.Errorf("error %v, want the output limit", got.err)
	}
}

func TestIndependentCellsAreLinkedTogether(t *testing.T) {
	for _, c := range []struct {
		name   string
		cells  []string
		builds int
	}{
		{"new names", []string{imports, "%%\nfmt.Println(1)", "type T struct{}\nfunc (T) String() string { return \"t\" }\nvar v = []string{\"a\"}", "%%\nfmt.Println(T{}, v)"}, 1},
		{"redeclared name", []string{imports, "func f() {}", "func f() int { return 1 }", "%%\nf()"}, 2},
		{"command in between", []string{imports, "!true", "%%\nfmt.Println(1)"}, 2},
		{"variable initialized by a call", []string{imports, "var v = os.Getpid()", "%%\nfmt.Println(v > 0)"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runCells(t, t.Context(), time.Minute, c.cells...)
			if got.err != nil || got.cost.builds != c.builds {
				t.Errorf("%d programs, %v, want %d", got.cost.builds, got.err, c.builds)
			}
		})
	}
}
