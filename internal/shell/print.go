package shell

import (
	"fmt"
	"strconv"
	"strings"
)

// builtinEcho prints its arguments.
func builtinEcho(p *proc) int {
	args, newline, escapes := p.args, true, false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && strings.Trim(args[0][1:], "neE") == "" {
		for _, letter := range args[0][1:] {
			switch letter {
			case 'n':
				newline = false
			default:
				escapes = letter == 'e'
			}
		}
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		var stop bool
		if text, stop = unescape(text, true); stop {
			newline = false
		}
	}
	p.print(text)
	if newline {
		p.print("\n")
	}
	return 0
}

// unescape replaces the escapes of echo -e and printf. stop reports whether \c was found, after which
// nothing is printed. With zeroOctal, octal numbers begin with 0, as echo defines.
func unescape(text string, zeroOctal bool) (result string, stop bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case 'c':
			return b.String(), true
		case 'x':
			n := digits(text[i+1:], 2, 16)
			v, err := strconv.ParseUint(text[i+1:i+1+n], 16, 8)
			if err != nil {
				b.WriteString(`\x`)
				continue
			}
			b.WriteByte(byte(v))
			i += n
		case '0', '1', '2', '3', '4', '5', '6', '7':
			from := i
			if c == '0' && zeroOctal {
				from++
			}
			n := digits(text[from:], 3, 8)
			v, _ := strconv.ParseUint(text[from:from+n], 8, 16)
			b.WriteByte(byte(v))
			i = from + n - 1
		default:
			if at := strings.IndexByte(`abefnrtv\`, c); at >= 0 {
				b.WriteByte("\a\b\x1b\f\n\r\t\v\\"[at])
			} else {
				b.WriteByte('\\')
				b.WriteByte(c)
			}
		}
	}
	return b.String(), false
}

// digits counts the leading digits of a base, at most limit.
func digits(text string, limit, base int) int {
	n := 0
	for n < limit && n < len(text) {
		if v, err := strconv.ParseUint(text[n:n+1], base, 8); err != nil || v >= uint64(base) { //nolint:gosec // 8 or 16
			break
		}
		n++
	}
	return n
}

// builtinPrintf prints its arguments in a format, which is used again while arguments are left.
func builtinPrintf(p *proc) int {
	if len(p.args) == 0 {
		p.warn("usage: printf FORMAT [ARG]...")
		return 1
	}
	format, args := p.args[0], p.args[1:]
	if format == "--" && len(args) > 0 {
		format, args = args[0], args[1:]
	}
	for {
		rest, stop := p.format(format, args)
		if stop || len(rest) == 0 || len(rest) == len(args) {
			return p.code
		}
		args = rest
	}
}

// format prints arguments once, and returns those that are left.
func (p *proc) format(format string, args []string) (rest []string, stop bool) {
	next := func() (string, bool) {
		if len(args) == 0 {
			return "", false
		}
		arg := args[0]
		args = args[1:]
		return arg, true
	}
	for len(format) > 0 {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			i = len(format)
		}
		text, ended := unescape(format[:i], false)
		p.print(text)
		if ended {
			return nil, true
		}
		if format = format[i:]; format == "" {
			break
		}
		end := 1
		for end < len(format) && strings.IndexByte("-+ #0123456789.*", format[end]) >= 0 {
			end++
		}
		if end == len(format) {
			p.errorf("%s: invalid format", format)
			return nil, true
		}
		spec, verb := format[:end], format[end]
		format = format[end+1:]
		for strings.Contains(spec, "*") {
			width, _ := next()
			n, _ := strconv.Atoi(width)
			spec = strings.Replace(spec, "*", strconv.Itoa(n), 1)
		}
		if verb == '%' {
			p.print("%")
			continue
		}
		arg, given := next()
		if p.formatOne(spec, verb, arg, given) {
			return nil, true
		}
	}
	return args, false
}

// formatOne prints one argument. It reports whether the output ends here.
func (p *proc) formatOne(spec string, verb byte, arg string, given bool) (stop bool) {
	switch verb {
	case 's':
		p.printf(spec+"s", arg)
	case 'b':
		text, ended := unescape(arg, true)
		p.printf(spec+"s", text)
		return ended
	case 'q':
		p.print(quote(arg))
	case 'c':
		if arg != "" {
			p.printf(spec+"s", arg[:1])
		}
	case 'd', 'i':
		p.printf(spec+"d", p.integer(arg, given))
	case 'u':
		p.printf(spec+"d", uint64(p.integer(arg, given))) //nolint:gosec // as C converts
	case 'x', 'X', 'o':
		p.print(fmt.Sprintf(spec+string(verb), uint64(p.integer(arg, given)))) //nolint:gosec // as C converts
	case 'f', 'e', 'g', 'E', 'G', 'F':
		v, err := strconv.ParseFloat(arg, 64)
		if err != nil && given {
			p.errorf("invalid number '%s'", arg)
		}
		p.print(fmt.Sprintf(spec+string(verb), v))
	default:
		p.errorf("%%%c: invalid format", verb)
		return true
	}
	return false
}

// integer returns the value of a number or of a character after a quote.
func (p *proc) integer(arg string, given bool) int64 {
	if !given || arg == "" {
		return 0
	}
	if arg[0] == '"' || arg[0] == '\'' {
		if len(arg) > 1 {
			return int64(arg[1])
		}
		return 0
	}
	v, err := strconv.ParseInt(arg, 0, 64)
	if err != nil {
		p.errorf("invalid number '%s'", arg)
	}
	return v
}
