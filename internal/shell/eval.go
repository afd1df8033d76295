package shell

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// list runs commands one after the other.
func (s *shell) list(stmts []*syntax.Stmt) int {
	status := 0
	for _, st := range stmts {
		if status = s.stmt(st); s.jump != noJump {
			break
		}
	}
	return status
}

// stmt runs one command with its redirections.
func (s *shell) stmt(st *syntax.Stmt) int {
	if s.opts.noexec {
		return 0
	}
	s.t.tick()
	if st.Coprocess || st.Disown {
		return s.unsupported("coprocess")
	}
	if st.Background {
		s.background(st)
		s.status = 0
		return 0
	}
	if st.Negated {
		s.tested++
	}
	status := s.command(st)
	if st.Negated {
		s.tested--
		status = oneIf(status == 0)
	}
	s.status = status
	s.runTraps()
	if status != 0 && s.opts.errexit && s.tested == 0 && !st.Negated && s.jump == noJump && exitsOnError(st.Cmd) {
		panic(exit{status})
	}
	return status
}

// exitsOnError reports whether errexit applies to a command itself, not only to the commands in it.
func exitsOnError(cmd syntax.Command) bool {
	switch cmd := cmd.(type) {
	case *syntax.CallExpr, *syntax.Subshell, nil:
		return true
	case *syntax.BinaryCmd:
		return cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll
	}
	return false
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// command runs a command, and returns its status.
func (s *shell) command(st *syntax.Stmt) int {
	if call, ok := st.Cmd.(*syntax.CallExpr); ok {
		return s.simple(call, st.Redirs)
	}
	if pipe, ok := st.Cmd.(*syntax.BinaryCmd); ok && len(st.Redirs) == 0 {
		return s.binary(pipe)
	}
	return s.redirected(st.Redirs, func() int { return s.compound(st.Cmd) })
}

// compound runs a command that consists of others.
func (s *shell) compound(cmd syntax.Command) int {
	switch cmd := cmd.(type) {
	case nil:
		return 0
	case *syntax.Block:
		return s.list(cmd.Stmts)
	case *syntax.Subshell:
		return s.inSubshell(func(sub *shell) int { return sub.list(cmd.Stmts) })
	case *syntax.BinaryCmd:
		return s.binary(cmd)
	case *syntax.IfClause:
		return s.ifClause(cmd)
	case *syntax.WhileClause:
		return s.whileClause(cmd)
	case *syntax.ForClause:
		return s.forClause(cmd)
	case *syntax.CaseClause:
		return s.caseClause(cmd)
	case *syntax.FuncDecl:
		s.funcs[cmd.Name.Value] = cmd.Body
		return 0
	}
	name := fmt.Sprintf("%T", cmd)
	return s.unsupported(name[strings.LastIndexByte(name, '.')+1:])
}

// binary runs a pipeline or an and-or list.
func (s *shell) binary(cmd *syntax.BinaryCmd) int {
	switch cmd.Op {
	case syntax.AndStmt, syntax.OrStmt:
		s.tested++
		status := s.stmt(cmd.X)
		s.tested--
		if s.jump != noJump || (status == 0) != (cmd.Op == syntax.AndStmt) {
			return status
		}
		return s.stmt(cmd.Y)
	case syntax.Pipe:
		return s.pipeline(flatten(cmd))
	}
	return s.unsupported(cmd.Op.String())
}

// flatten returns the parts of a pipeline.
func flatten(cmd *syntax.BinaryCmd) []*syntax.Stmt {
	left, ok := cmd.X.Cmd.(*syntax.BinaryCmd)
	if ok && left.Op == syntax.Pipe && len(cmd.X.Redirs) == 0 && !cmd.X.Negated {
		return append(flatten(left), cmd.Y)
	}
	return []*syntax.Stmt{cmd.X, cmd.Y}
}

// pipeline runs the parts of a pipeline concurrently. The last one runs in the task of the shell.
func (s *shell) pipeline(parts []*syntax.Stmt) int {
	var tasks []*task
	var previous *handle
	last := len(parts) - 1
	for _, part := range parts[:last] {
		reader, writer := newPipe()
		sub := s.fork(s.t)
		sub.replace(0, previous)
		sub.replace(1, writer)
		previous = reader
		tasks = append(tasks, s.spawnShell(sub, func(sub *shell) int { return sub.stmt(part) }))
	}
	sub := s.fork(s.t)
	sub.replace(0, previous)
	code := sub.runToEnd(func(sub *shell) int { return sub.stmt(parts[last]) })
	s.t.wait("pipeline", 0, func() bool { return allDone(tasks) })
	if s.opts.pipefail && code == 0 {
		for _, t := range tasks {
			if t.code != 0 {
				code = t.code
			}
		}
	}
	return code
}

// spawnShell runs a forked shell in a new task.
func (s *shell) spawnShell(sub *shell, f func(sub *shell) int) *task {
	if len(s.t.c.tasks) >= tasksMax {
		sub.closeAll()
		s.cannotFork()
	}
	return s.t.c.spawn(s.t, func(t *task) int {
		sub.t, t.shell = t, sub
		return sub.runToEnd(f)
	}, nil)
}

func allDone(tasks []*task) bool {
	return !slices.ContainsFunc(tasks, func(t *task) bool { return !t.done })
}

// replace puts a handle, which may be nil, in place of a descriptor.
func (s *shell) replace(fd int, h *handle) {
	if h == nil {
		return
	}
	old := s.fds.get(fd)
	s.fds.set(fd, h)
	if old != nil {
		old.release(s.t)
	}
}

// background starts a command in a task of its own.
func (s *shell) background(st *syntax.Stmt) {
	sub := s.fork(s.t)
	sub.replace(0, &handle{stream: nullStream{}})
	_, sub.transparent = st.Cmd.(*syntax.CallExpr)
	foreground := *st
	foreground.Background = false
	t := s.spawnShell(sub, func(sub *shell) int { return sub.stmt(&foreground) })
	s.children = slices.DeleteFunc(s.children, func(child *task) bool { return child.waited })
	if len(s.children) >= tasksMax { // those that have ended and that nothing has waited for
		s.children = slices.DeleteFunc(s.children, isDone)
	}
	s.children = append(s.children, t)
	s.lastBackground = t.pid
}

// test runs the condition of a command.
func (s *shell) test(stmts []*syntax.Stmt) int {
	s.tested++
	status := s.list(stmts)
	s.tested--
	return status
}

func (s *shell) ifClause(cmd *syntax.IfClause) int {
	if len(cmd.Cond) == 0 { // else
		return s.list(cmd.Then)
	}
	switch status := s.test(cmd.Cond); {
	case s.jump != noJump:
		return status
	case status == 0:
		return s.list(cmd.Then)
	case cmd.Else != nil:
		return s.ifClause(cmd.Else)
	}
	return 0
}

func (s *shell) whileClause(cmd *syntax.WhileClause) int {
	s.loops++
	defer func() { s.loops-- }()
	status := 0
	for {
		tested := s.test(cmd.Cond)
		if s.leaves() || (tested == 0) == cmd.Until {
			return status
		}
		status = s.list(cmd.Do)
		if s.leaves() {
			return status
		}
	}
}

// leaves reports whether the innermost loop ends because of a jump, which it takes a step further.
func (s *shell) leaves() bool {
	switch s.jump {
	case noJump:
		return false
	case jumpReturn:
		return true
	}
	if s.jumpLoops--; s.jumpLoops > 0 {
		return true
	}
	left := s.jump == jumpBreak
	s.jump = noJump
	return left
}

func (s *shell) forClause(cmd *syntax.ForClause) int {
	words, ok := cmd.Loop.(*syntax.WordIter)
	if !ok || cmd.Select {
		return s.unsupported("this form of for")
	}
	items := s.params
	if words.InPos.IsValid() {
		items = s.fields(words.Items...)
	}
	s.loops++
	defer func() { s.loops-- }()
	status := 0
	for _, item := range items {
		s.t.tick()
		s.set(words.Name.Value, item)
		status = s.list(cmd.Do)
		if s.leaves() {
			break
		}
	}
	return status
}

func (s *shell) caseClause(cmd *syntax.CaseClause) int {
	word := s.literal(cmd.Word)
	for _, item := range cmd.Items {
		for _, p := range item.Patterns {
			text, err := expand.Pattern(s.expandConfig(), p)
			s.checkExpansion(err)
			if matches(text, word) {
				if item.Op != syntax.Break {
					return s.unsupported(item.Op.String())
				}
				return s.list(item.Stmts)
			}
		}
	}
	return 0
}

// matches reports whether a pattern of the shell matches a whole text.
func matches(pat, text string) bool {
	expression, err := pattern.Regexp(pat, pattern.EntireString)
	if err != nil {
		return pat == text
	}
	re, err := regexp.Compile(expression)
	return err == nil && re.MatchString(text)
}
