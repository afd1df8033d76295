//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// call runs nbrun.
func call(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, c bytes.Buffer
	status = nbrun(t.Context(), args, &o, &c)
	return status, o.String(), c.String()
}

func TestMakeRunWriteAndCheck(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "02-of-two")
	path := filepath.Join(folder, "02-of-two.ipynb")
	lesson := "// A lesson.\npackage main\n\nimport \"fmt\"\n\nfunc main() {\n\tsay()\n}\n\n// It speaks.\nfunc say() {\n\tfmt.Println(\"one\")\n\tfmt.Println(\"two\")\n}\n"
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write("main.go", lesson)
	expect := func(want int, texts []string, args ...string) {
		t.Helper()
		status, out, errs := call(t, args...)
		if status != want {
			t.Fatalf("nbrun %q: exit status %d, want %d\n%s%s", args, status, want, out, errs)
		}
		for _, text := range texts {
			if !strings.Contains(out+errs, text) {
				t.Fatalf("nbrun %q: output\n%s%s\nwant %q", args, out, errs, text)
			}
		}
	}
	expect(1, []string{"no notebook of this lesson", "nbrun make"}, "make", "--check", folder)
	expect(0, []string{"02-of-two.ipynb: generated, 4 cells"}, "make", folder)
	expect(0, nil, "make", "--check", folder)
	expect(1, []string{"cell step-say:\n  + [stdout]\n  + one\n  + two\n", "nbrun run --write"}, "run", "--check", path)
	expect(0, []string{"ok, 2 cells", "1 programs"}, "run", "--write", path)
	expect(0, []string{"ok"}, "run", "--check", path)
	expect(0, nil, "make", "--check", folder) // outputs are ignored
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	expect(0, nil, "make", folder) // outputs are kept
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("make changed an up-to-date notebook (%v)", err)
	}
	write("02-of-two.ipynb", strings.Replace(string(before), "one\\n\"", "eins\\n\"", 1))
	expect(1, []string{"cell step-say:\n    [stdout]\n  - eins\n  + one\n    two\n"}, "run", "--check", path)
	write("02-of-two.ipynb", strings.Replace(string(before), "\"outputs\": []", "\"outputs\":[]", 1))
	expect(1, []string{"stored in another form"}, "run", "--check", path)
	write("main.go", strings.Replace(lesson, "It speaks", "It talks", 1))
	expect(1, []string{"notebook does not match the lesson", "- It speaks.\n  + It talks.\n"}, "make", "--check", folder)
}

func TestSmallLessonMatchesItsOutputs(t *testing.T) {
	if status, out, errs := call(t, "run", "--check", notebookPath(smallLesson)); status != 0 {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
}

func TestNotebooksRunConcurrently(t *testing.T) {
	folder := t.TempDir()
	args := []string{"run", "--jobs", "2"}
	// Each of the two waits for the other.
	for i, source := range []string{
		"!mkfifo a 2>/dev/null; mkfifo b 2>/dev/null; echo > a; read x < b; echo one",
		"!mkfifo a 2>/dev/null; mkfifo b 2>/dev/null; read x < a; echo > b; echo two",
	} {
		n := newNotebook()
		n.add("code", "meet", source)
		text, err := n.encode()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, string(rune('a'+i))+"book.ipynb")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if status, out, errs := call(t, args...); status != 0 || strings.Count(out, ": ok") != 2 {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
}

func TestFailedOptimisticRunIsRepeated(t *testing.T) {
	// Linked into one program, the last cell's variable would change the output of the cell before.
	n := newNotebook()
	n.add("code", "a", "import \"fmt\"\nvar n = new(int)\nfunc count() int { *n++; return *n }")
	n.add("code", "b", "%%\nfmt.Println(*n)")
	n.add("code", "c", "var one = count()\n%%\nfmt.Println(*n)")
	text, err := n.encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.ipynb")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, output string }{
		{"--write", "2 programs"}, // not optimistic
		{"--check", "3 programs"}, // optimistic, then not
		{"--write", "3 programs"},
	} {
		if status, out, errs := call(t, "run", c.flag, path); status != 0 || !strings.Contains(out, c.output) {
			t.Errorf("nbrun run %s: exit status %d\n%s%s\nwant %s", c.flag, status, out, errs, c.output)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		output string
	}{
		{nil, 2, "usage: nbrun make"},
		{[]string{"--help"}, 0, "usage: nbrun make"},
		{[]string{"run", "--help"}, 0, "usage: nbrun make"},
		{[]string{"fly"}, 2, `unknown command "fly"`},
		{[]string{"run"}, 2, "specify at least one"},
		{[]string{"run", "--write", "--check", "x"}, 2, "mutually exclusive"},
		{[]string{"run", "--wrong", "x"}, 2, "flag provided but not defined"},
		{[]string{"run", "missing.ipynb"}, 1, "missing.ipynb: open"},
		{[]string{"run", "main.go"}, 1, "parse notebook main.go"},
		{[]string{"make", "missing"}, 1, "missing: open"},
	} {
		status, out, errs := call(t, c.args...)
		if status != c.status || !strings.Contains(out+errs, c.output) {
			t.Errorf("nbrun %q: exit status %d, output\n%s%s\nwant %d and %q", c.args, status, out, errs, c.status, c.output)
		}
	}
}

// TestOutputEnds writes the output to a closed pipe and to a full disk, and interrupts a run.
func TestOutputEnds(t *testing.T) {
	full := errors.New("disk full")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		write  error
		status int
		text   string
	}{
		{"closed pipe", t.Context(), syscall.EPIPE, 141, ""},
		{"full disk", t.Context(), full, 1, "nbrun: standard output: disk full\n"},
		{"interrupted", cancelled, nil, 130, "nbrun: interrupted\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder, errs := t.TempDir(), &bytes.Buffer{}
			path := filepath.Join(folder, "main.go")
			if err := os.WriteFile(path, []byte("// A lesson.\npackage main\n\nfunc main() {\n\tsay()\n}\n\n// It is silent.\nfunc say() {}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"make", folder}
			if c.write == nil {
				if status, _, errs := call(t, args...); status != 0 {
					t.Fatal(errs)
				}
				args = []string{"run", notebookPath(folder)}
			}
			if status := nbrun(c.ctx, args, failing{c.write}, errs); status != c.status || errs.String() != c.text {
				t.Errorf("exit status %d, %q; want %d and %q", status, errs, c.status, c.text)
			}
		})
	}
}

// failing is a writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestNotebookRoundTrip(t *testing.T) {
	// Unknown fields are preserved, in Jupyter's order of keys and without escapes.
	text := `{
 "cells": [
  {
   "attachments": {},
   "cell_type": "markdown",
   "id": "a",
   "metadata": {
    "collapsed": false,
    "height": 1.50
   },
   "source": [
    "<b> & é → \"x\"\n",
    "end"
   ]
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
`
	path := filepath.Join(t.TempDir(), "x.ipynb")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := readNotebook(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := n.encode(); err != nil || string(again) != text {
		t.Errorf("encoded as\n%s%v", again, err)
	}
}
