package shell

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// expandConfig returns how words are expanded.
func (s *shell) expandConfig() *expand.Config {
	cfg := &expand.Config{Env: environ{s}, CmdSubst: s.substitute, NoUnset: s.opts.nounset}
	if !s.opts.noglob {
		cfg.ReadDir2 = s.globDir
	}
	return cfg
}

// fields expands words to fields.
func (s *shell) fields(words ...*syntax.Word) []string {
	fields, err := expand.Fields(s.expandConfig(), words...)
	s.checkExpansion(err)
	return fields
}

// literal expands a word to one text.
func (s *shell) literal(word *syntax.Word) string {
	text, err := expand.Literal(s.expandConfig(), word)
	s.checkExpansion(err)
	return text
}

// checkExpansion ends the shell after an error of an expansion.
func (s *shell) checkExpansion(err error) {
	if err == nil {
		return
	}
	var unset expand.UnsetParameterError
	switch {
	case !errors.As(err, &unset):
		s.errorf("%s", strings.Replace(err.Error(), "division by zero", "divide by zero", 1))
	case unset.Message == "unbound variable" || unset.Message == "":
		s.errorf("%s: parameter not set", unset.Node.Param.Value)
	default:
		s.errorf("%s: %s", unset.Node.Param.Value, unset.Message)
	}
	panic(exit{2})
}

// substitute runs a command substitution.
func (s *shell) substitute(w io.Writer, subst *syntax.CmdSubst) error {
	output := &bufferStream{}
	sub := s.fork(s.t)
	sub.replace(1, &handle{stream: output})
	s.substStatus = sub.runToEnd(func(sub *shell) int { return sub.list(subst.Stmts) })
	_, err := w.Write(slices.DeleteFunc(output.Bytes(), func(b byte) bool { return b == 0 }))
	return err
}

// globDir reads a directory for the expansion of a pattern.
func (s *shell) globDir(dir string) ([]fs.DirEntry, error) {
	var entries []fs.DirEntry
	err := s.t.access("readdir", dir, func() error {
		here, err := s.view().resolve(dir, true)
		if err != nil {
			return err
		}
		names, err := s.view().readDir(here)
		for _, name := range names {
			entry, _ := s.view().resolve(here.path+"/"+name, false)
			entries = append(entries, dirEntry{name, entry.info.Mode})
		}
		return err
	})
	return entries, err
}

// A dirEntry is an entry of a directory.
type dirEntry struct {
	name string
	mode fs.FileMode
}

func (d dirEntry) Name() string               { return d.name }
func (d dirEntry) IsDir() bool                { return d.mode.IsDir() }
func (d dirEntry) Type() fs.FileMode          { return d.mode.Type() }
func (d dirEntry) Info() (fs.FileInfo, error) { return d, nil }
func (d dirEntry) Size() int64                { return 0 }
func (d dirEntry) Mode() fs.FileMode          { return d.mode }
func (d dirEntry) ModTime() time.Time         { return time.Time{} }
func (d dirEntry) Sys() any                   { return nil }

// environ is the variables of a shell, for expansions.
type environ struct{ s *shell }

var _ expand.WriteEnviron = environ{}

func text(value string) expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: value}
}

// Get returns a variable or special parameter.
func (e environ) Get(name string) expand.Variable {
	s := e.s
	switch name {
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: s.params}
	case "#":
		return text(strconv.Itoa(len(s.params)))
	case "?":
		return text(strconv.Itoa(s.status))
	case "$":
		return text(strconv.Itoa(s.pid))
	case "!":
		if s.lastBackground == 0 {
			return expand.Variable{}
		}
		return text(strconv.Itoa(s.lastBackground))
	case "-":
		return text(s.flags())
	case "0":
		return text(s.name)
	case "PWD":
		return text(s.cwd)
	case "PPID":
		return text(strconv.Itoa(s.parentPID))
	case "RANDOM":
		return text(strconv.FormatUint(s.t.c.random.next()>>49, 10))
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n < 1 || n > len(s.params) {
			return expand.Variable{}
		}
		return text(s.params[n-1])
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		if user == "root" {
			return text("/root")
		}
		return text("~" + user)
	}
	return s.vars[name]
}

// Each calls f with the variables, in the order of their names.
func (e environ) Each(f func(name string, v expand.Variable) bool) {
	for _, name := range sortedKeys(e.s.vars) {
		if !f(name, e.s.vars[name]) {
			return
		}
	}
}

// Set assigns a variable.
func (e environ) Set(name string, v expand.Variable) error { return e.s.assign(name, v.Str) }

// assign gives a variable a value, and keeps its attributes.
func (s *shell) assign(name, value string) error {
	old := s.vars[name]
	if old.ReadOnly {
		return errors.New(name + ": is read only")
	}
	if len(value) > variableMax {
		s.t.die("KILL") // out of memory
	}
	old.Set, old.Kind, old.Str = true, expand.String, value
	old.Exported = old.Exported || s.opts.allexport
	s.vars[name] = old
	return nil
}

// set assigns a variable. For a read-only one it ends the shell.
func (s *shell) set(name, value string) {
	if err := s.assign(name, value); err != nil {
		s.errorf("%s", err)
		panic(exit{2})
	}
}

func (s *shell) get(name string) string { return s.vars[name].Str }

// flags returns $-.
func (s *shell) flags() string {
	var b strings.Builder
	for _, name := range sortedKeys(optionNames) {
		if letter := optionNames[name]; letter != 0 && *s.opts.option(name) {
			b.WriteByte(letter)
		}
	}
	return b.String()
}

// exported returns the environment of programs, sorted.
func (s *shell) exported() []string {
	var pairs []string
	for _, name := range sortedKeys(s.vars) {
		if v := s.vars[name]; v.Exported && v.Set {
			pairs = append(pairs, name+"="+v.Str)
		}
	}
	return pairs
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m { // any order: sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
