package shell

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// redirected runs f with redirections.
func (s *shell) redirected(redirs []*syntax.Redirect, f func() int) int {
	if len(redirs) == 0 {
		return s.flushed(f())
	}
	restore, err := s.redirect(redirs)
	if err != nil {
		restore()
		return 1
	}
	status, unwinding := frame(func() int { return s.flushed(f()) })
	restore()
	if unwinding != nil {
		panic(unwinding)
	}
	return status
}

// flushed writes to the disk what a command has written to files.
func (s *shell) flushed(status int) int {
	if err := s.fds.flush(s.t); err != nil {
		s.errorf("write error: %s", errorText(err))
		return 1
	}
	return status
}

// redirect makes redirections. restore undoes them. An error was reported.
func (s *shell) redirect(redirs []*syntax.Redirect) (restore func(), err error) {
	type saved struct {
		fd int
		h  *handle
	}
	var before []saved
	restore = func() {
		for i := len(before) - 1; i >= 0; i-- {
			b := before[i]
			if now := s.fds.get(b.fd); now != nil {
				delete(s.fds.table, b.fd)
				now.release(s.t)
			}
			if b.h != nil {
				s.fds.table[b.fd] = b.h // with its reference
			}
		}
	}
	for _, r := range redirs {
		fd, h, err := s.target(r)
		if err != nil {
			return restore, err
		}
		before = append(before, saved{fd, s.fds.get(fd)})
		delete(s.fds.table, fd)
		if h != nil {
			s.fds.set(fd, h)
		}
	}
	return restore, nil
}

// target returns the descriptor of a redirection, and what it will refer to; nil closes it.
func (s *shell) target(r *syntax.Redirect) (fd int, h *handle, err error) {
	fd = 1
	switch r.Op {
	case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc:
		fd = 0
	}
	if r.N != nil {
		if fd, err = strconv.Atoi(r.N.Value); err != nil {
			s.unsupported("redirection " + r.N.Value)
		}
	}
	if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		text, err := expand.Document(s.expandConfig(), r.Hdoc)
		s.checkExpansion(err)
		if r.Op == syntax.DashHdoc {
			text = withoutTabs(text)
		}
		b := &bufferStream{}
		b.WriteString(text)
		return fd, &handle{stream: b}, nil
	}
	word := s.literal(r.Word)
	switch r.Op {
	case syntax.RdrIn:
		h, err = s.open(word, openFlags{read: true})
	case syntax.RdrInOut:
		h, err = s.open(word, openFlags{read: true, write: true, create: true})
	case syntax.RdrOut, syntax.RdrClob:
		h, err = s.open(word, openFlags{write: true, create: true, truncate: true})
	case syntax.AppOut:
		h, err = s.open(word, openFlags{write: true, create: true, appending: true})
	case syntax.DplIn, syntax.DplOut:
		return s.duplicated(fd, word)
	default:
		s.unsupported("redirection " + r.Op.String())
	}
	if err != nil {
		verb := "can't create"
		if r.Op == syntax.RdrIn {
			verb = "can't open"
		}
		s.errorf("%s %s: %s", verb, word, shellErrorText(err, verb))
	}
	return fd, h, err
}

// shellErrorText returns the text of an error as the shell writes it.
func shellErrorText(err error, verb string) string {
	text := errorText(err)
	if text != "No such file or directory" {
		return text
	}
	if verb == "can't create" {
		return "nonexistent directory"
	}
	return "no such file"
}

// duplicated returns the handle of another descriptor.
func (s *shell) duplicated(fd int, word string) (int, *handle, error) {
	if word == "-" {
		return fd, nil, nil
	}
	n, err := strconv.Atoi(word)
	if err != nil {
		s.errorf("%s: bad file descriptor", word)
		return fd, nil, err
	}
	h := s.fds.get(n)
	if h == nil {
		s.errorf("%d: Bad file descriptor", n)
		return fd, nil, errNotSupported
	}
	return fd, h, nil
}

// withoutTabs removes the leading tabs of each line.
func withoutTabs(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "\t")
	}
	return strings.Join(lines, "")
}
