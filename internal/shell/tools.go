package shell

import (
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tools are the programs of the image, by name.
var tools map[string]func(p *proc) int

func init() {
	tools = map[string]func(p *proc) int{
		"sh": toolSh, "ash": toolSh, "bash": toolSh, "dash": toolSh,
		"sleep": toolSleep, "env": toolEnv, "printenv": toolPrintenv, "timeout": toolTimeout, "xargs": toolXargs,
		"nohup": toolEnv, "setsid": toolEnv, "nice": toolEnv, "which": toolWhich, "yes": toolYes,
		"date": toolDate, "id": toolID, "whoami": toolWhoami, "hostname": toolHostname, "uname": toolUname, "ps": toolPs,
		"agnhost": toolAgnhost, "nsenter": toolNsenter,
	}
	for _, group := range []map[string]func(p *proc) int{
		readTools, textTools, directoryTools, attributeTools, deviceTools, calculationTools,
	} {
		for name, tool := range group { // any order: names are unique
			tools[name] = tool
		}
	}
}

const notDirectory = syscall.ENOTDIR

// fileMode returns the mode of Unix mode bits.
func fileMode(bits uint64) fs.FileMode {
	mode := fs.FileMode(bits & 0o777)
	for _, b := range []struct {
		bit  uint64
		mode fs.FileMode
	}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}} {
		if bits&b.bit != 0 {
			mode |= b.mode
		}
	}
	return mode
}

// modeBits returns the Unix mode bits of a mode.
func modeBits(mode fs.FileMode) uint64 {
	bits := uint64(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		bits |= 0o4000
	}
	if mode&fs.ModeSetgid != 0 {
		bits |= 0o2000
	}
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// toolSh runs a shell.
func toolSh(p *proc) int {
	s := p.newShell(p.name)
	args := p.args
	command, interactive := false, true
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		if strings.HasPrefix(arg, "--") {
			continue // such as --login
		}
		if strings.Contains(arg, "c") && !strings.HasPrefix(arg, "-o") {
			command = true
		}
		if strings.HasSuffix(arg, "o") && len(args) > 0 {
			s.setOptions(p, []string{arg, args[0]})
			args = args[1:]
			continue
		}
		s.setOptions(p, []string{arg})
	}
	var script string
	eval := (*shell).eval
	switch {
	case command:
		if len(args) == 0 {
			p.errorf("-c requires an argument")
			return 2
		}
		script = args[0]
		if args = args[1:]; len(args) > 0 {
			s.name, args = args[0], args[1:]
		}
		interactive = false
	case len(args) > 0:
		data, err := p.s.readFile(args[0])
		if err != nil {
			p.errorf("can't open '%s': %s", args[0], errorText(err))
			return 2
		}
		script, s.name, args = string(data), args[0], args[1:]
		eval, interactive = (*shell).evalFile, false
	}
	s.params = args
	if interactive {
		return p.runShell(s, func(s *shell) int { return s.readCommands(p) })
	}
	return p.runShell(s, func(s *shell) int { return eval(s, script) })
}

// toolScript runs an executable file.
func toolScript(p *proc) int {
	s := p.newShell(p.args0())
	data, err := p.s.readFile(s.name)
	if err != nil {
		p.errorf("%s: %s", s.name, errorText(err))
		return exitNotExecutable
	}
	script := string(data)
	if first, _, _ := strings.Cut(script, "\n"); strings.HasPrefix(first, "#!") {
		fields := strings.Fields(first[2:])
		if len(fields) > 0 && fields[0] == "/usr/bin/env" {
			fields = fields[1:]
		}
		interpreter := ""
		if len(fields) > 0 {
			interpreter = fields[0][strings.LastIndexByte(fields[0], '/')+1:]
		}
		if tool := tools[interpreter]; tool == nil {
			p.s.errorf("%s: not found", s.name)
			return 127
		}
		if len(fields) > 1 {
			s.setOptions(p, fields[1:])
		}
	}
	s.params = p.args
	return p.runShell(s, func(s *shell) int { return s.evalFile(script) })
}

// args0 returns the name by which the tool was called, with its directories.
func (p *proc) args0() string { return p.called }

// newShell returns a shell with the environment, directory and descriptors of the tool.
func (p *proc) newShell(name string) *shell {
	s := newShell(p.s.t, name)
	for name, v := range p.s.vars { // any order: keys are unique
		if v.Exported {
			v.ReadOnly = false
			s.vars[name] = v
		}
	}
	s.pid, s.parentPID = s.t.c.lastPID, p.s.pid
	s.cwd, s.umask, s.fds, s.node = p.s.cwd, p.s.umask, p.s.fds.clone(), p.s.node
	if p.s.t.shell == nil || p.s.transparent {
		s.pid, s.parentPID = s.t.pid, p.s.parentPID
	}
	return s
}

// runShell runs a shell as the tool. It handles the signals of the task, unless another shell waits for
// it.
func (p *proc) runShell(s *shell, f func(s *shell) int) int {
	outer := s.t.shell
	if outer == nil || p.s.transparent && outer == p.s {
		s.t.shell = s
	}
	code, unwinding := frame(func() int { return s.runToEnd(f) })
	if outer != nil {
		s.t.shell = outer
	}
	if unwinding != nil {
		panic(unwinding)
	}
	return code
}

// readCommands runs the commands from stdin, as far as they are complete.
func (s *shell) readCommands(*proc) int {
	text := ""
	for {
		line, complete := s.readLine(0, true, 0)
		if line == nil && !complete {
			break
		}
		text += bytesOf(line) + "\n"
		file, err := s.parse(text)
		if err != nil && complete {
			continue // more lines may complete it
		}
		if err != nil {
			break
		}
		text = ""
		s.status = s.list(file.Stmts)
		if !complete {
			break
		}
	}
	if text != "" {
		return s.eval(text)
	}
	return s.status
}

// duration parses a duration such as 1, 0.5, 3m or infinity, which is 0.
func duration(text string) (time.Duration, error) {
	if text == "infinity" || text == "inf" || text == "" {
		return 0, nil
	}
	unit := time.Second
	switch text[len(text)-1] {
	case 's':
		text = text[:len(text)-1]
	case 'm':
		text, unit = text[:len(text)-1], time.Minute
	case 'h':
		text, unit = text[:len(text)-1], time.Hour
	case 'd':
		text, unit = text[:len(text)-1], 24*time.Hour
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0, strconv.ErrSyntax
	}
	return time.Duration(n * float64(unit)), nil
}

// toolSleep waits.
func toolSleep(p *proc) int {
	if len(p.args) == 0 {
		p.errorf("missing operand")
		return 1
	}
	var total time.Duration
	endless := false
	for _, arg := range p.args {
		d, err := duration(arg)
		if err != nil || arg == "" {
			p.errorf("invalid number '%s'", arg)
			return 1
		}
		endless = endless || d == 0 && strings.HasPrefix(arg, "inf")
		total += d
	}
	if total == 0 && !endless {
		return 0
	}
	if endless {
		total = 0
	}
	p.s.interruptibly(func() { p.s.t.wait("sleep", total, func() bool { return false }) })
	return 0
}

// toolEnv runs a program with another environment, or prints the environment.
func toolEnv(p *proc) int {
	sub := p.s.fork(p.s.t)
	sub.transparent = p.s.transparent
	options, args := p.options("i0", "un")
	if p.name == "env" && has(options, 'i') {
		clear(sub.vars)
	}
	if name, ok := options['u']; ok && p.name == "env" {
		delete(sub.vars, name)
	}
	for p.name == "env" && len(args) > 0 && strings.Contains(args[0], "=") {
		name, value, _ := strings.Cut(args[0], "=")
		v := text(value)
		v.Exported = true
		sub.vars[name] = v
		args = args[1:]
	}
	if len(args) == 0 {
		for _, pair := range sub.exported() {
			p.print(pair + "\n")
		}
		sub.closeAll()
		return 0
	}
	return sub.runToEnd(func(sub *shell) int {
		prog, err := sub.findProgram(args[0])
		if err != nil {
			p.errorf("can't execute '%s': %s", args[0], errorText(err))
			return 127
		}
		return sub.execute(prog, args)
	})
}

func toolPrintenv(p *proc) int {
	if len(p.args) == 0 {
		return toolEnv(p)
	}
	code := 0
	for _, name := range p.args {
		if v := p.s.vars[name]; v.Set && v.Exported {
			p.print(v.Str + "\n")
		} else {
			code = 1
		}
	}
	return code
}

// toolTimeout runs a program with a limit of time.
func toolTimeout(p *proc) int {
	options, args := p.options("", "sk")
	if len(args) < 2 {
		p.errorf("missing operand")
		return 1
	}
	limit, err := duration(strings.TrimPrefix(args[0], "-t"))
	if err != nil {
		p.errorf("invalid number '%s'", args[0])
		return 1
	}
	name := "TERM"
	if text, ok := options['s']; ok {
		if name = signalName(text); name == "" {
			p.errorf("bad signal name '%s'", text)
			return 1
		}
	}
	sub := p.s.fork(p.s.t)
	sub.transparent = true
	child := p.s.spawnShell(sub, func(sub *shell) int { return sub.runProgram(args[1:]) })
	done := func() bool { return child.done }
	if p.s.t.wait("program", limit, done) {
		return child.code
	}
	child.signal(name)
	if kill, err := duration(options['k']); has(options, 'k') && err == nil && !p.s.t.wait("program", kill, done) {
		child.kill()
	}
	p.s.t.wait("program", 0, done)
	if child.code == 128+signals["KILL"] {
		return child.code
	}
	return 128 + signals[name]
}

// toolXargs runs a program with arguments from stdin.
func toolXargs(p *proc) int {
	options, args := p.options("0rt", "nI")
	if len(args) == 0 {
		args = []string{"echo"}
	}
	var items []string
	var input strings.Builder
	_ = lines(p.stdin(), func(line string) bool { input.WriteString(line); return true })
	switch {
	case has(options, '0'):
		items = strings.Split(strings.TrimSuffix(input.String(), "\x00"), "\x00")
	case has(options, 'I'):
		items = strings.Split(strings.TrimSuffix(input.String(), "\n"), "\n")
	default:
		items = strings.Fields(input.String())
	}
	if input.Len() == 0 {
		items = nil
	}
	batch := max(len(items), 1)
	if n, err := strconv.Atoi(options['n']); err == nil && n > 0 {
		batch = n
	}
	if has(options, 'I') {
		batch = 1
	}
	if len(items) == 0 && has(options, 'r') {
		return 0
	}
	code := 0
	for first := true; first || len(items) > 0; first = false {
		n := min(batch, len(items))
		command := append([]string(nil), args...)
		if text, ok := options['I']; ok {
			if n == 0 {
				break
			}
			for i := range command {
				command[i] = strings.ReplaceAll(command[i], text, items[0])
			}
		} else {
			command = append(command, items[:n]...)
		}
		items = items[n:]
		p.mustFlush()
		if status := p.s.runProgram(command); status != 0 {
			code = 123
		}
	}
	return code
}

func toolWhich(p *proc) int { return oneIf(p.describe(p.args, false) != 0) }

// toolYes prints a line until its reader has gone.
func toolYes(p *proc) int {
	line := "y"
	if len(p.args) > 0 {
		line = strings.Join(p.args, " ")
	}
	chunk := strings.Repeat(line+"\n", max(1, 4096/(len(line)+1)))
	for {
		p.print(chunk)
		p.mustFlush()
		p.s.t.tick()
	}
}
