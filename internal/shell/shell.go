package shell

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A shell is a process of a container that runs commands: a shell or a subshell. Tools run in the shell
// that starts them.
type shell struct {
	t         *task
	name      string // $0
	params    []string
	vars      map[string]expand.Variable
	funcs     map[string]*syntax.Stmt
	fds       *descriptors
	cwd       string
	umask     fs.FileMode
	traps     map[string]string
	pid       int // $$
	parentPID int // $PPID

	status         int // $?
	substStatus    int // of the last command substitution
	lastBackground int // $!
	children       []*task
	opts           options
	tested         int // depth of commands whose status is tested, so that errexit does not apply
	loops          int // depth
	calls          int // depth of function calls and sourced files
	jump           jump
	jumpLoops      int // loops that break or continue leaves
	locals         []map[string]expand.Variable
	line           int       // of the current command, in its text
	firstLine      int       // number of the first line: 1 in files, 0 in strings
	exiting        bool      // the EXIT trap runs
	node           *instance // the node, if the shell sees its files instead of the container's; see toolNsenter
	transparent    bool      // runs one simple command only, which takes its place
}

// options are those of set.
type options struct{ errexit, nounset, xtrace, pipefail, noglob, noexec, allexport bool }

// optionNames maps the names of options to their letters; 0: none.
var optionNames = map[string]byte{
	"errexit": 'e', "nounset": 'u', "xtrace": 'x', "pipefail": 0, "noglob": 'f', "noexec": 'n', "allexport": 'a',
}

// option returns the option with a name, or nil.
func (o *options) option(name string) *bool {
	return map[string]*bool{
		"errexit": &o.errexit, "nounset": &o.nounset, "xtrace": &o.xtrace, "pipefail": &o.pipefail,
		"noglob": &o.noglob, "noexec": &o.noexec, "allexport": &o.allexport,
	}[name]
}

// A jump is how the control flow leaves a list of commands.
type jump uint8

const (
	noJump jump = iota
	jumpBreak
	jumpContinue
	jumpReturn
)

// newShell returns a shell without variables or descriptors.
func newShell(t *task, name string) *shell {
	return &shell{
		t: t, name: name, pid: t.pid, cwd: "/", umask: 0o022,
		vars: map[string]expand.Variable{}, funcs: map[string]*syntax.Stmt{},
		traps: map[string]string{}, fds: newDescriptors(),
	}
}

// view returns whose files the shell sees.
func (s *shell) view() *instance {
	if s.node != nil {
		return s.node
	}
	return s.t.c
}

// defaultPath is $PATH of a container.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// setEnvironment sets the variables of the container.
func (s *shell) setEnvironment() {
	spec := &s.t.c.spec
	for _, pair := range append([]string{
		"PATH=" + defaultPath, "HOSTNAME=" + spec.Hostname, "HOME=/root",
	}, spec.Env...) {
		name, value, _ := strings.Cut(pair, "=")
		s.vars[name] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: value}
	}
	if spec.TTY {
		s.set("TERM", "xterm")
	}
}

// enterWorkingDir makes the working directory, as a container runtime does.
func (s *shell) enterWorkingDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := s.mkdir(dir, 0o755, true); err != nil {
		return fmt.Errorf("mkdir %s: %w", dir, err)
	}
	s.cwd = path.Clean(dir)
	return nil
}

// fork returns a copy of the shell for a subshell in a task.
func (s *shell) fork(t *task) *shell {
	made := *s
	made.t, made.fds = t, s.fds.clone()
	made.vars, made.funcs, made.params = maps.Clone(s.vars), maps.Clone(s.funcs), slices.Clone(s.params)
	made.traps = map[string]string{}
	for name, action := range s.traps { // any order: keys are unique
		if action == "" {
			made.traps[name] = ""
		}
	}
	made.children, made.locals, made.exiting = nil, nil, false
	made.jump, made.loops = noJump, 0
	return &made
}

// closeAll closes the descriptors.
func (s *shell) closeAll() { s.fds.closeAll(s.t) }

// inSubshell runs f as the body of a subshell in the same task, and returns its exit code.
func (s *shell) inSubshell(f func(sub *shell) int) int {
	return s.fork(s.t).runToEnd(f)
}

// runToEnd runs f as the body of the shell with its EXIT trap, and closes the descriptors.
func (s *shell) runToEnd(f func(s *shell) int) int {
	code, unwinding := frame(func() int { return f(s) })
	if _, died := unwinding.(death); !died {
		s.status = code
		code, unwinding = frame(func() int { return s.runExitTrap(code) })
	}
	s.closeAll()
	absorb(unwinding)
	return code
}

// runExitTrap runs the trap of EXIT.
func (s *shell) runExitTrap(code int) int {
	action := s.traps["EXIT"]
	delete(s.traps, "EXIT")
	if action == "" {
		return code
	}
	s.exiting, s.status, s.jump = true, code, noJump
	s.eval(action)
	return code
}

// runTraps runs the traps of the signals that have arrived.
func (s *shell) runTraps() {
	if s.t.shell != s || len(s.t.pending) == 0 {
		return
	}
	pending := slices.Clone(s.t.pending)
	s.t.pending = nil
	for _, name := range pending {
		if action := s.traps[name]; action != "" {
			status := s.status
			s.eval(action)
			s.status = status
		}
	}
}

// errorf writes a message of the shell to stderr.
func (s *shell) errorf(format string, args ...any) {
	s.writeTo(2, s.name+": "+fmt.Sprintf(format, args...)+"\n")
}

// writeTo writes text to a descriptor.
func (s *shell) writeTo(fd int, text string) error {
	h := s.fds.get(fd)
	if h == nil {
		return fs.ErrClosed
	}
	_, err := h.write(s.t, []byte(text))
	return err
}

// parse parses a script.
func (s *shell) parse(text string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
}

// evalFile runs the text of a file in the shell, and returns its status.
func (s *shell) evalFile(text string) int { return s.evalAt(text, 1) }

// eval runs a string in the shell, and returns its status.
func (s *shell) eval(text string) int { return s.evalAt(text, 0) }

// evalAt runs a text whose first line has a number.
func (s *shell) evalAt(text string, firstLine int) int {
	before := s.firstLine
	defer func() { s.firstLine = before }()
	s.firstLine = firstLine
	file, err := s.parse(text)
	if err != nil {
		s.errorf("syntax error: %s", strings.TrimPrefix(err.Error(), ":"))
		s.status = 2
		if !s.exiting {
			panic(exit{2})
		}
		return 2
	}
	s.nest(func() int { s.status = s.list(file.Stmts); return s.status })
	return s.status
}

// nest runs f one level deeper. A process that is nested too deeply ends.
func (s *shell) nest(f func() int) int {
	t := s.t
	if t.depth >= depthMax {
		s.cannotFork()
	}
	t.depth++
	code, unwinding := frame(f)
	t.depth--
	if unwinding != nil {
		panic(unwinding)
	}
	return code
}

// cannotFork ends the shell: the container has too many processes.
func (s *shell) cannotFork() {
	s.errorf("can't fork: Resource temporarily unavailable")
	panic(exit{2})
}

// unsupported ends the shell: the script has a construct that it does not know.
func (s *shell) unsupported(what string) int {
	s.errorf("%s: not supported by the simulated shell", what)
	panic(exit{2})
}

// abs returns the absolute form of a path, without cleaning it.
func (s *shell) abs(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return strings.TrimSuffix(s.cwd, "/") + "/" + name
}
