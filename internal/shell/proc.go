package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// A proc is one execution of a tool or builtin.
type proc struct {
	s      *shell // that runs it; its descriptors, directory and variables are those of the tool
	name   string
	called string   // the name, with its directories
	args   []string // without the name
	out    []byte   // written to stdout at the next flush
	code   int      // of errors that were reported
}

// outBytes is how much output is kept until it is written.
const outBytes = 32 << 10

// runTool runs a tool or builtin, and returns its exit code.
func runTool(s *shell, tool func(p *proc) int, args []string) int {
	name := args[0]
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	p := &proc{s: s, name: name, called: args[0], args: args[1:]}
	code := tool(p)
	if err := p.flush(); err != nil {
		p.cannotWrite(err)
		return 1
	}
	return max(code, p.code)
}

// printf adds to stdout.
func (p *proc) printf(format string, args ...any) { p.print(fmt.Sprintf(format, args...)) }

// print adds text to stdout.
func (p *proc) print(text string) {
	p.out = append(p.out, text...)
	if len(p.out) >= outBytes {
		p.mustFlush()
	}
}

// flush writes what was printed.
func (p *proc) flush() error {
	if len(p.out) == 0 {
		return nil
	}
	data := p.out
	p.out = nil
	h := p.s.fds.get(1)
	if h == nil {
		return fs.ErrClosed
	}
	_, err := h.write(p.s.t, data)
	return err
}

// mustFlush writes what was printed, and ends the tool if that fails.
func (p *proc) mustFlush() {
	if err := p.flush(); err != nil {
		p.cannotWrite(err)
		panic(exit{1})
	}
}

// cannotWrite reports that stdout cannot be written.
func (p *proc) cannotWrite(err error) {
	name := p.name
	if p.called == name && builtins[name] != nil {
		name = p.s.name
	}
	p.warn(name + ": write error: " + errorText(err))
}

// errorf writes a message to stderr, and makes the exit code 1.
func (p *proc) errorf(format string, args ...any) {
	p.warn(p.name + ": " + fmt.Sprintf(format, args...))
	p.code = max(p.code, 1)
}

// warn writes a line to stderr.
func (p *proc) warn(line string) {
	if len(p.out) > 0 {
		p.mustFlush()
	}
	p.s.writeTo(2, line+"\n")
}

// fail writes a message to stderr and ends the tool.
func (p *proc) fail(format string, args ...any) int {
	p.errorf(format, args...)
	panic(exit{1})
}

// usage ends the tool: its arguments are wrong or not supported.
func (p *proc) usage(what string) {
	p.errorf("unrecognized option: %s", what)
	panic(exit{1})
}

// options parses the options of a tool. The letters in flags take no value, those in valued take one.
// It returns the values by letter ("" for a flag) and the other arguments.
func (p *proc) options(flags, valued string) (map[byte]string, []string) {
	found := map[byte]string{}
	args := p.args
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		args = args[1:]
		if arg == "--" {
			break
		}
		for i := 1; i < len(arg); i++ {
			letter := arg[i]
			switch {
			case strings.IndexByte(flags, letter) >= 0:
				found[letter] = ""
			case strings.IndexByte(valued, letter) >= 0:
				value := arg[i+1:]
				if value == "" {
					if len(args) == 0 {
						p.errorf("option requires an argument: %c", letter)
						panic(exit{1})
					}
					value, args = args[0], args[1:]
				}
				found[letter] = value
				i = len(arg)
			default:
				p.usage(strings.TrimLeft(string(letter), "-"))
			}
		}
	}
	return found, args
}

func has(options map[byte]string, letter byte) bool {
	_, ok := options[letter]
	return ok
}

// stdin returns a reader of descriptor 0.
func (p *proc) stdin() io.Reader { return p.reader(p.s.fds.get(0)) }

// reader returns a reader of a handle, which may be nil. It flushes stdout before it waits.
func (p *proc) reader(h *handle) io.Reader { return procReader{p, h} }

type procReader struct {
	p *proc
	h *handle
}

// Read implements io.Reader.
func (r procReader) Read(to []byte) (int, error) {
	if r.h == nil {
		return 0, fs.ErrClosed
	}
	if len(r.p.out) > 0 {
		r.p.mustFlush()
	}
	r.p.s.t.tick() // a device never waits
	return r.h.read(r.p.s.t, to)
}

// withInput calls f with a reader of a file; "-" is stdin. It reports errors.
func (p *proc) withInput(name string, f func(r io.Reader) error) bool {
	if name == "-" {
		return p.report(name, f(p.stdin()))
	}
	h, err := p.s.open(name, openFlags{read: true})
	if err != nil {
		if plainOpenErrors[p.name] {
			p.errorf("%s: %s", name, errorText(err))
		} else {
			p.errorf("can't open '%s': %s", name, errorText(err))
		}
		return false
	}
	h.refs++
	err = f(p.reader(h))
	h.release(p.s.t)
	if err != nil {
		p.errorf("read error: %s", errorText(err))
	}
	return err == nil
}

// plainOpenErrors are the tools that report a file without "can't open", as busybox does.
var plainOpenErrors = map[string]bool{
	"grep": true, "head": true, "sed": true, "wc": true, "uniq": true, "cut": true, "rev": true,
}

// withInputs calls f for each file, or for stdin if there are none.
func (p *proc) withInputs(names []string, f func(name string, r io.Reader) error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		p.withInput(name, func(r io.Reader) error { return f(name, r) })
	}
}

// report reports an error about a file, and reports whether there was none.
func (p *proc) report(name string, err error) bool {
	if err != nil {
		p.errorf("%s: %s", name, errorText(err))
	}
	return err == nil
}

// lines calls f with each line, with its newline if it has one, until f returns false.
func lines(r io.Reader, f func(line string) bool) error {
	var rest []byte
	chunk := make([]byte, 8<<10)
	for {
		n, err := r.Read(chunk)
		rest = append(rest, chunk[:n]...)
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			line := string(rest[:i+1])
			rest = rest[i+1:]
			if !f(line) {
				return nil
			}
		}
		if err != nil {
			if len(rest) > 0 && errors.Is(err, io.EOF) {
				f(string(rest))
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// chomp returns a line without its newline.
func chomp(line string) string { return strings.TrimSuffix(line, "\n") }
