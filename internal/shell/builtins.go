package shell

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// builtins are the commands of the shell itself.
var builtins map[string]func(p *proc) int

// programBuiltins are builtins that are programs, too.
var programBuiltins = []string{"[", "[[", "echo", "false", "kill", "printf", "pwd", "test", "true"}

func init() {
	succeed := func(*proc) int { return 0 }
	fail := func(*proc) int { return 1 }
	builtins = map[string]func(p *proc) int{
		":": succeed, "true": succeed, "false": fail, "hash": succeed, "ulimit": succeed, "alias": succeed,
		"[": builtinTest, "[[": builtinTest, "test": builtinTest,
		"echo": builtinEcho, "printf": builtinPrintf,
		"break": builtinBreak, "continue": builtinBreak, "return": builtinReturn, "exit": builtinExit,
		"cd": builtinCd, "pwd": builtinPwd, "eval": builtinEval, ".": builtinSource, "source": builtinSource,
		"exec": builtinExec, "command": builtinCommand, "type": builtinType,
		"export": builtinExport, "readonly": builtinReadonly, "local": builtinLocal, "unset": builtinUnset,
		"set": builtinSet, "shift": builtinShift, "trap": builtinTrap, "umask": builtinUmask,
		"kill": builtinKill, "wait": builtinWait, "read": builtinRead, "getopts": builtinGetopts, "jobs": succeed,
		"let": builtinLet,
	}
}

// number returns the n-th argument as a number, or otherwise.
func (p *proc) number(n, otherwise int) int {
	if n >= len(p.args) {
		return otherwise
	}
	v, err := strconv.Atoi(p.args[n])
	if err != nil {
		p.s.errorf("%s: Illegal number: %s", p.name, p.args[n])
		panic(exit{2})
	}
	return v
}

func builtinBreak(p *proc) int {
	n := min(p.number(0, 1), p.s.loops)
	if n > 0 {
		p.s.jumpLoops, p.s.jump = n, jumpBreak
		if p.name == "continue" {
			p.s.jump = jumpContinue
		}
	}
	return 0
}

func builtinReturn(p *proc) int {
	p.s.status = p.number(0, p.s.status) & 0xff
	if p.s.calls == 0 {
		panic(exit{p.s.status})
	}
	p.s.jump = jumpReturn
	return p.s.status
}

func builtinExit(p *proc) int {
	code := p.number(0, p.s.status) & 0xff
	p.mustFlush()
	panic(exit{code})
}

func builtinCd(p *proc) int {
	s := p.s
	_, args := p.options("LP", "")
	dir := s.get("HOME")
	if len(args) > 0 {
		dir = args[0]
	}
	if dir == "-" {
		dir = s.get("OLDPWD")
		p.print(dir + "\n")
	}
	here, err := s.stat(dir, true)
	if err == nil && !here.isDir() {
		err = notDirectory
	}
	if err != nil {
		s.errorf("cd: line %d: can't cd to %s: %s", s.line, dir, errorText(err))
		return 2
	}
	s.set("OLDPWD", s.cwd)
	s.cwd = logicalPath(s.abs(dir))
	s.set("PWD", s.cwd)
	return 0
}

// logicalPath removes "." and ".." from an absolute path, without links.
func logicalPath(name string) string {
	var elements []string
	for element := range strings.SplitSeq(name, "/") {
		switch element {
		case "", ".":
		case "..":
			elements = elements[:max(0, len(elements)-1)]
		default:
			elements = append(elements, element)
		}
	}
	return "/" + strings.Join(elements, "/")
}

func builtinPwd(p *proc) int {
	p.print(p.s.cwd + "\n")
	return 0
}

func builtinEval(p *proc) int { return p.s.eval(strings.Join(p.args, " ")) }

func builtinSource(p *proc) int {
	s := p.s
	if len(p.args) == 0 {
		s.errorf("%s: filename argument required", p.name)
		return 2
	}
	data, err := s.readFile(p.args[0])
	if err != nil {
		s.errorf("%s: can't open '%s': %s", p.name, p.args[0], errorText(err))
		panic(exit{2})
	}
	s.calls++
	defer func() { s.calls-- }()
	status := s.evalFile(string(data))
	if s.jump == jumpReturn {
		s.jump, status = noJump, s.status
	}
	return status
}

// builtinExec replaces the shell by a program.
func builtinExec(p *proc) int {
	s := p.s
	prog, err := s.findProgram(p.args[0])
	if err != nil {
		panic(exit{s.cannotRun(p.args[0], err)})
	}
	s.traps = map[string]string{}
	s.transparent = true
	code := s.execute(prog, p.args)
	_ = s.fds.flush(s.t)
	panic(exit{code})
}

func builtinCommand(p *proc) int {
	s := p.s
	options, args := p.options("vVp", "")
	if len(args) == 0 {
		return 0
	}
	if has(options, 'v') || has(options, 'V') {
		return p.describe(args, has(options, 'V'))
	}
	if builtin := builtins[args[0]]; builtin != nil {
		return runTool(s, builtin, args)
	}
	return s.runProgram(args)
}

func builtinType(p *proc) int { return p.describe(p.args, true) }

// describe prints what commands are.
func (p *proc) describe(names []string, long bool) int {
	code := 0
	for _, name := range names {
		text := map[bool]string{false: name, true: name + " is a shell builtin"}[long]
		switch {
		case p.s.funcs[name] != nil:
			if long {
				text = name + " is a function"
			}
		case builtins[name] != nil:
		default:
			prog, err := p.s.findProgram(name)
			if err != nil {
				if long {
					p.print(name + ": not found\n")
				}
				code = exitNotFound
				continue
			}
			at := prog.script
			if at == "" {
				at = "/bin/" + name[strings.LastIndexByte(name, '/')+1:]
			}
			text = at
			if long {
				text = name + " is " + at
			}
		}
		p.print(text + "\n")
	}
	return code
}

// variable splits NAME=VALUE, and checks the name.
func (p *proc) variable(arg string) (name, value string, assigned bool) {
	name, value, assigned = strings.Cut(arg, "=")
	if !syntax.ValidName(name) {
		p.s.errorf("%s: %s: bad variable name", p.name, arg)
		panic(exit{2})
	}
	return name, value, assigned
}

func builtinExport(p *proc) int {
	options, args := p.options("pn", "")
	if len(args) == 0 {
		for _, pair := range p.s.exported() {
			name, value, _ := strings.Cut(pair, "=")
			p.printf("export %s='%s'\n", name, value)
		}
	}
	for _, arg := range args {
		name, value, assigned := p.variable(arg)
		if assigned {
			p.s.set(name, value)
		}
		v := p.s.vars[name]
		v.Exported = !has(options, 'n')
		p.s.vars[name] = v
	}
	return 0
}

func builtinReadonly(p *proc) int {
	_, args := p.options("p", "")
	for _, arg := range args {
		name, value, assigned := p.variable(arg)
		if assigned {
			p.s.set(name, value)
		}
		v := p.s.vars[name]
		v.ReadOnly = true
		p.s.vars[name] = v
	}
	return 0
}

func builtinLocal(p *proc) int {
	s := p.s
	if len(s.locals) == 0 {
		s.errorf("local: not in a function")
		panic(exit{2})
	}
	frame := s.locals[len(s.locals)-1]
	for _, arg := range p.args {
		name, value, assigned := p.variable(arg)
		if _, is := frame[name]; !is {
			frame[name] = s.vars[name]
		}
		if assigned {
			s.set(name, value)
		}
	}
	return 0
}

func builtinUnset(p *proc) int {
	options, args := p.options("fv", "")
	for _, name := range args {
		switch {
		case has(options, 'f'):
			delete(p.s.funcs, name)
		case p.s.vars[name].ReadOnly:
			p.s.errorf("unset: %s: is read only", name)
			return 2
		default:
			delete(p.s.vars, name)
		}
	}
	return 0
}

func builtinSet(p *proc) int {
	s := p.s
	args := p.args
	if len(args) == 0 {
		environ{s}.Each(func(name string, v expand.Variable) bool {
			p.printf("%s='%s'\n", name, v.Str)
			return true
		})
		return 0
	}
	rest, positional := s.setOptions(p, args)
	if positional {
		s.params = rest
	}
	return 0
}

// setOptions applies options as set takes them. positional reports whether other arguments follow.
func (s *shell) setOptions(p *proc, args []string) (rest []string, positional bool) {
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			return args[1:], true
		}
		if len(arg) < 2 || arg[0] != '-' && arg[0] != '+' {
			return args, true
		}
		args = args[1:]
		for _, letter := range []byte(arg[1:]) {
			name := ""
			if letter == 'o' {
				if len(args) == 0 {
					return nil, false
				}
				name, args = args[0], args[1:]
			}
			for option, short := range optionNames { // any order: letters are unique
				if short == letter {
					name = option
				}
			}
			option := s.opts.option(name)
			switch {
			case option != nil:
				*option = arg[0] == '-'
			case strings.IndexByte("cilsmbv", letter) >= 0: // without effect
			default:
				s.errorf("%s: illegal option %s", p.name, arg)
				panic(exit{2})
			}
		}
	}
	return nil, false
}

func builtinShift(p *proc) int {
	n := p.number(0, 1)
	if n > len(p.s.params) {
		return 1
	}
	p.s.params = p.s.params[n:]
	return 0
}

func builtinTrap(p *proc) int {
	s := p.s
	_, args := p.options("lp", "")
	if len(args) == 0 {
		for _, name := range sortedKeys(s.traps) {
			p.printf("trap -- %s %s\n", quote(s.traps[name]), name)
		}
		return 0
	}
	action, names := args[0], args[1:]
	if len(names) == 0 { // trap SIGNAL resets it
		action, names = "-", args
	}
	for _, text := range names {
		name := signalName(text)
		if name == "" {
			s.errorf("trap: %s: invalid signal specification", text)
			return 1
		}
		if action == "-" {
			delete(s.traps, name)
		} else {
			s.traps[name] = action
		}
	}
	return 0
}

func builtinUmask(p *proc) int {
	if len(p.args) == 0 {
		p.printf("%04o\n", p.s.umask)
		return 0
	}
	mode, err := strconv.ParseUint(p.args[0], 8, 12)
	if err != nil {
		p.s.errorf("umask: illegal mode: %s", p.args[0])
		return 2
	}
	p.s.umask = fileMode(mode)
	return 0
}

func builtinLet(p *proc) int {
	status := 1
	for _, arg := range p.args {
		expression, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Arithmetic(strings.NewReader(arg))
		if err != nil {
			p.s.errorf("let: %s", err)
			return 1
		}
		n, err := expand.Arithm(p.s.expandConfig(), expression)
		p.s.checkExpansion(err)
		status = oneIf(n == 0)
	}
	return status
}

// builtinGetopts parses the options of a script.
func builtinGetopts(p *proc) int {
	s := p.s
	if len(p.args) < 2 {
		return 2
	}
	spec, name, args := p.args[0], p.args[1], p.args[2:]
	if len(args) == 0 {
		args = s.params
	}
	index, _ := strconv.Atoi(s.get("OPTIND"))
	index = max(index, 1)
	at, _ := strconv.Atoi(s.get("OPTOFF"))
	at = max(at, 1)
	if index > len(args) || len(args[index-1]) < 2 || args[index-1][0] != '-' || args[index-1] == "--" {
		if index <= len(args) && args[index-1] == "--" {
			s.set("OPTIND", strconv.Itoa(index+1))
		}
		s.set(name, "?")
		return 1
	}
	arg := args[index-1]
	letter := arg[at : at+1]
	at++
	i := strings.Index(spec, letter)
	switch {
	case i < 0 || letter == ":":
		s.errorf("illegal option -%s", letter)
		letter = "?"
	case strings.HasPrefix(spec[i+1:], ":"):
		if at < len(arg) {
			s.set("OPTARG", arg[at:])
		} else if index++; index <= len(args) {
			s.set("OPTARG", args[index-1])
		} else {
			s.errorf("no arg for -%s option", letter)
			letter = "?"
		}
		at = len(arg)
		if index <= len(args) {
			at = len(args[index-1])
			arg = args[index-1]
		}
	}
	if at >= len(arg) {
		index, at = index+1, 1
	}
	s.set(name, letter)
	s.set("OPTIND", strconv.Itoa(index))
	s.set("OPTOFF", strconv.Itoa(at))
	return 0
}
