package shell

import (
	"strconv"
	"strings"
	"time"
)

// builtinKill sends a signal to processes of the container.
func builtinKill(p *proc) int {
	s := p.s
	name, args := "TERM", p.args
	if len(args) > 0 && args[0] == "-l" {
		p.print("HUP INT QUIT KILL USR1 USR2 PIPE ALRM TERM CHLD CONT STOP\n")
		return 0
	}
	if len(args) > 1 && args[0] == "-s" {
		name, args = args[1], args[2:]
	} else if len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "--" {
		name, args = args[0][1:], args[1:]
	}
	if name != "0" {
		text := name
		if name = signalName(text); name == "" || name == "EXIT" {
			s.errorf("kill: bad signal name '%s'", text)
			return 1
		}
	}
	code := 0
	for _, arg := range args {
		target := s.processOf(arg)
		if target == nil {
			s.errorf("can't kill pid %s: No such process", arg)
			code = 1
			continue
		}
		if name != "0" {
			target.signal(name)
		}
	}
	s.t.check()
	return code
}

// processOf returns the running process with a pid, or of a job such as %1; nil if there is none.
func (s *shell) processOf(arg string) *task {
	if job, ok := strings.CutPrefix(arg, "%"); ok {
		n, err := strconv.Atoi(job)
		if err != nil || n < 1 || n > len(s.children) || s.children[n-1].done {
			return nil
		}
		return s.children[n-1]
	}
	pid, err := strconv.Atoi(arg)
	if err != nil {
		return nil
	}
	if pid == s.pid {
		return s.t
	}
	return s.t.c.find(pid)
}

// builtinWait waits for children of the shell.
func builtinWait(p *proc) int {
	s := p.s
	if len(p.args) == 0 {
		code := s.waitFor(s.children, 0)
		for _, child := range s.children {
			child.waited = child.done
		}
		return code
	}
	code := 0
	for _, arg := range p.args {
		code = exitNotFound
		for i, child := range s.children {
			if strconv.Itoa(child.pid) == arg || "%"+strconv.Itoa(i+1) == arg {
				code = s.waitFor([]*task{child}, 0)
				if child.done {
					code = child.code
					s.reportSignal(child)
					child.waited = true
				}
			}
		}
	}
	return code
}

// signalTexts are the kernel's names of signals that are reported when they end a job.
var signalTexts = map[string]string{
	"HUP": "Hangup", "QUIT": "Quit", "KILL": "Killed", "USR1": "User defined signal 1", "USR2": "User defined signal 2",
	"ALRM": "Alarm clock", "TERM": "Terminated",
}

// reportSignal reports the signal that has ended a job, when it is waited for the first time.
func (s *shell) reportSignal(t *task) {
	if text := signalTexts[t.endedBy]; text != "" && !t.waited {
		s.writeTo(2, text+"\n")
	}
}

func isDone(t *task) bool { return t.done }

// waitFor waits until tasks have ended, and returns status, or that of a signal that interrupted it.
func (s *shell) waitFor(tasks []*task, status int) int {
	s.interruptibly(func() {
		if !s.t.wait("children", 0, func() bool { return allDone(tasks) }) && len(s.t.pending) > 0 {
			status = 128 + signals[s.t.pending[0]]
		}
	})
	return status
}

// builtinRead reads a line into variables.
func builtinRead(p *proc) int {
	s := p.s
	options, names := p.options("rs", "ptnu")
	limit, err := duration(options['t'])
	if has(options, 't') && err != nil {
		s.errorf("read: invalid timeout")
		return 2
	}
	fd := 0
	if has(options, 'u') {
		fd, _ = strconv.Atoi(options['u'])
	}
	if has(options, 'p') {
		s.writeTo(2, options['p'])
	}
	line, complete := s.readLine(fd, has(options, 'r'), limit)
	if len(names) == 0 {
		names = []string{"REPLY"}
	}
	fields := s.splitLine(line, len(names))
	for i, name := range names {
		value := ""
		if i < len(fields) {
			value = fields[i]
		}
		s.set(name, value)
	}
	return oneIf(!complete)
}

// An escaped byte is part of a line, and whether a backslash precedes it.
type lineByte struct {
	b       byte
	escaped bool
}

// readLine reads up to the end of a line, and no further. complete reports whether the line has an end.
func (s *shell) readLine(fd int, raw bool, limit time.Duration) (line []lineByte, complete bool) {
	h := s.fds.get(fd)
	if h == nil {
		return nil, false
	}
	end := s.t.now().Add(limit)
	escaped := false
	var one [1]byte
	for {
		if limit > 0 && !s.awaitInput(h, end.Sub(s.t.now())) {
			return line, false
		}
		if s.t.tick(); len(line) > variableMax {
			s.t.die("KILL") // out of memory
		}
		n, err := 0, error(nil)
		s.interruptibly(func() { n, err = h.read(s.t, one[:]) })
		if n == 0 || err != nil {
			return line, false
		}
		b := one[0]
		switch {
		case escaped:
			escaped = false
			if b != '\n' {
				line = append(line, lineByte{b, true})
			}
		case b == '\\' && !raw:
			escaped = true
		case b == '\n':
			return line, true
		default:
			line = append(line, lineByte{b, false})
		}
	}
}

// awaitInput waits until a read would not wait, and reports whether that is so before the limit.
func (s *shell) awaitInput(h *handle, limit time.Duration) bool {
	var ready func() bool
	switch in := h.stream.(type) {
	case *inputStream:
		ready = in.input.Ready
	case pipeReader:
		ready = func() bool { return len(in.data) > 0 || !in.writerOpen }
	default:
		return true
	}
	if ready() {
		return true
	}
	if limit <= 0 {
		return false
	}
	return s.t.wait("input", limit, ready)
}

// splitLine splits a line into at most n fields.
func (s *shell) splitLine(line []lineByte, n int) []string {
	ifs := " \t\n"
	if v := s.vars["IFS"]; v.Set {
		ifs = v.Str
	}
	separates := func(c lineByte) bool { return !c.escaped && strings.IndexByte(ifs, c.b) >= 0 }
	blank := func(c lineByte) bool { return separates(c) && strings.IndexByte(" \t\n", c.b) >= 0 }
	for len(line) > 0 && blank(line[0]) {
		line = line[1:]
	}
	for len(line) > 0 && blank(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	var fields []string
	for len(line) > 0 && len(fields) < n-1 {
		i := 0
		for i < len(line) && !separates(line[i]) {
			i++
		}
		fields = append(fields, bytesOf(line[:i]))
		for i < len(line) && blank(line[i]) {
			i++
		}
		if i < len(line) && separates(line[i]) {
			i++
		}
		for i < len(line) && blank(line[i]) {
			i++
		}
		line = line[i:]
	}
	if len(line) > 0 {
		fields = append(fields, bytesOf(line))
	}
	return fields
}

func bytesOf(line []lineByte) string {
	b := make([]byte, len(line))
	for i, c := range line {
		b[i] = c.b
	}
	return string(b)
}
