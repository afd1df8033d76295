package shell

import (
	"io/fs"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// assignmentBuiltins take assignments as arguments, which are not split into fields.
var assignmentBuiltins = map[string]bool{"export": true, "readonly": true, "local": true}

// simple runs a simple command.
func (s *shell) simple(call *syntax.CallExpr, redirs []*syntax.Redirect) int {
	s.substStatus = 0
	s.line = int(call.Pos().Line()) - 1 + s.firstLine //nolint:gosec // of a text in memory
	args := s.arguments(call.Args)
	if len(args) == 0 {
		status := s.redirected(redirs, func() int { return 0 })
		for _, a := range call.Assigns {
			s.assignment(a)
		}
		if status == 0 {
			status = s.substStatus
		}
		return status
	}
	if args[0] == "exec" && len(args) == 1 {
		if _, err := s.redirect(redirs); err != nil {
			panic(exit{1})
		}
		return 0
	}
	return s.redirected(redirs, func() int { return s.withAssigns(call.Assigns, args) })
}

// withAssigns runs a command with variables that are exported for its duration.
func (s *shell) withAssigns(assigns []*syntax.Assign, args []string) int {
	if len(assigns) == 0 {
		s.trace(args)
		return s.run(args)
	}
	type saved struct {
		name string
		v    expand.Variable
		had  bool
	}
	var before []saved
	for _, a := range assigns {
		name := a.Name.Value
		v, had := s.vars[name]
		before = append(before, saved{name, v, had})
		s.assignment(a)
		v = s.vars[name]
		v.Exported = true
		s.vars[name] = v
	}
	s.trace(args)
	status, unwinding := frame(func() int { return s.run(args) })
	for i := len(before) - 1; i >= 0; i-- {
		if before[i].had {
			s.vars[before[i].name] = before[i].v
		} else {
			delete(s.vars, before[i].name)
		}
	}
	if unwinding != nil {
		panic(unwinding)
	}
	return status
}

// assignment makes the assignment of a simple command.
func (s *shell) assignment(a *syntax.Assign) {
	if a.Array != nil || a.Index != nil {
		s.unsupported("array")
	}
	value := s.literal(a.Value)
	if a.Append {
		value = s.get(a.Name.Value) + value
	}
	if s.opts.xtrace {
		s.writeTo(2, "+ "+a.Name.Value+"="+quote(value)+"\n")
	}
	s.set(a.Name.Value, value)
}

// arguments expands the words of a command.
func (s *shell) arguments(words []*syntax.Word) []string {
	if len(words) == 0 {
		return nil
	}
	if !assignmentBuiltins[words[0].Lit()] {
		return s.fields(words...)
	}
	args := []string{words[0].Lit()}
	for _, word := range words[1:] {
		if isAssignment(word) {
			args = append(args, s.literal(word))
		} else {
			args = append(args, s.fields(word)...)
		}
	}
	return args
}

// isAssignment reports whether a word has the form NAME=VALUE.
func isAssignment(word *syntax.Word) bool {
	first, ok := word.Parts[0].(*syntax.Lit)
	if !ok {
		return false
	}
	name, _, found := strings.Cut(first.Value, "=")
	return found && syntax.ValidName(name)
}

// trace writes a command to stderr, as set -x demands.
func (s *shell) trace(args []string) {
	if !s.opts.xtrace {
		return
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = quote(arg)
	}
	s.writeTo(2, "+ "+strings.Join(quoted, " ")+"\n")
}

// quote returns an argument as the shell reads it.
func quote(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " \t\n\"'\\$`*?[]{}()<>|&;#~!") {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// run runs a function, builtin or program.
func (s *shell) run(args []string) int {
	name := args[0]
	if body := s.funcs[name]; body != nil {
		return s.call(body, args[1:])
	}
	if builtin := builtins[name]; builtin != nil {
		return runTool(s, builtin, args)
	}
	return s.runProgram(args)
}

// call runs a function.
func (s *shell) call(body *syntax.Stmt, params []string) int {
	const callsMax = 1000
	if s.calls >= callsMax {
		s.errorf("functions are nested too deeply")
		panic(exit{2})
	}
	outer, loops := s.params, s.loops
	s.params, s.loops = params, 0
	s.calls++
	s.locals = append(s.locals, map[string]expand.Variable{})
	status, unwinding := frame(func() int { return s.stmt(body) })
	for name, v := range s.locals[len(s.locals)-1] { // any order: keys are unique
		if v.Set {
			s.vars[name] = v
		} else {
			delete(s.vars, name)
		}
	}
	s.locals = s.locals[:len(s.locals)-1]
	s.calls--
	s.params, s.loops = outer, loops
	if unwinding != nil {
		panic(unwinding)
	}
	if s.jump == jumpReturn {
		s.jump, status = noJump, s.status
	}
	return status
}

// A program is what a command executes.
type program struct {
	tool   func(p *proc) int
	script string // path of a script; "" for a tool
}

// runProgram runs a program in the foreground.
func (s *shell) runProgram(args []string) int {
	prog, err := s.findProgram(args[0])
	if err != nil {
		return s.cannotRun(args[0], err)
	}
	return s.execute(prog, args)
}

// cannotRun reports that a program cannot be executed.
func (s *shell) cannotRun(name string, err error) int {
	if text := errorText(err); containsSlash(name) && text != errorText(fs.ErrNotExist) {
		s.errorf("%s: %s", name, text)
		return exitNotExecutable
	}
	s.errorf("%s: not found", name)
	return 127
}

// findProgram returns the program that a command names.
func (s *shell) findProgram(name string) (program, error) {
	if tool := programTool(name); tool != nil {
		return program{tool: tool}, nil
	}
	var candidates []string
	if containsSlash(name) {
		candidates = []string{s.abs(name)}
	} else {
		for dir := range strings.SplitSeq(s.get("PATH"), ":") {
			candidates = append(candidates, strings.TrimSuffix(dir, "/")+"/"+name)
		}
	}
	var found program
	err := s.t.access("exec", candidates[0], func() error {
		var first error = fs.ErrNotExist
		for _, candidate := range candidates {
			here, err := s.view().resolve(candidate, true)
			switch {
			case err != nil || !here.exists:
			case here.virtual != nil && here.virtual.tool != "":
				found.tool = programTool(here.virtual.tool)
				return nil
			case !here.isRegular() || here.info.Mode&0o111 == 0:
				first = fs.ErrPermission
			default:
				found.script = candidate
				return nil
			}
		}
		return first
	})
	return found, err
}

// programTool returns the tool with a name, or nil.
func programTool(name string) func(p *proc) int {
	if tool := tools[name]; tool != nil {
		return tool
	}
	for _, b := range programBuiltins {
		if b == name {
			return builtins[name]
		}
	}
	return nil
}

// execute runs a program, and returns its exit code.
func (s *shell) execute(prog program, args []string) int {
	s.t.c.lastPID++
	if s.t.depth >= depthMax {
		s.cannotFork()
	}
	s.t.depth++
	defer func() { s.t.depth-- }()
	code, unwinding := frame(func() int {
		if prog.script != "" {
			return runTool(s, toolScript, append([]string{prog.script}, args[1:]...))
		}
		return runTool(s, prog.tool, args)
	})
	absorb(unwinding)
	return code
}
