package shell

import (
	"regexp"
	"strconv"
	"strings"
)

// A sedCommand is a command of sed with its address.
type sedCommand struct {
	from, to    sedAddress
	ranged      bool
	inside      bool // of the range, while it runs
	negated     bool
	verb        byte
	pattern     *regexp.Regexp
	replacement string
	flags       string
	text        string
}

// A sedAddress selects lines; the zero value selects all.
type sedAddress struct {
	line    int
	last    bool
	pattern *regexp.Regexp
}

func (a sedAddress) given() bool { return a.line > 0 || a.last || a.pattern != nil }

func (a sedAddress) matches(n int, last bool, line string) bool {
	return a.line == n && n > 0 || a.last && last || a.pattern != nil && a.pattern.MatchString(line)
}

// toolSed edits lines by the commands s, p, d and q.
func toolSed(p *proc) int {
	options, args := p.options("nirE", "ef")
	script, ok := options['e']
	if !ok {
		if len(args) == 0 {
			return p.fail("missing script")
		}
		script, args = args[0], args[1:]
	}
	extended := has(options, 'E') || has(options, 'r')
	commands := p.parseSed(script, extended)
	if !has(options, 'i') {
		p.print(p.runSed(commands, p.allLines(args), has(options, 'n')))
		return p.code
	}
	for _, name := range args {
		all := p.allLines([]string{name})
		if p.code > 0 {
			continue
		}
		p.report(name, p.s.writeFile(name, []byte(p.runSed(commands, all, has(options, 'n'))), 0o666))
	}
	return p.code
}

// parseSed parses a script.
func (p *proc) parseSed(script string, extended bool) []*sedCommand {
	var commands []*sedCommand
	for script = strings.TrimLeft(script, " ;\n"); script != ""; script = strings.TrimLeft(script, " ;\n") {
		c := &sedCommand{}
		c.from, script = p.parseAddress(script, extended)
		if strings.HasPrefix(script, ",") {
			c.ranged = true
			c.to, script = p.parseAddress(script[1:], extended)
		}
		script = strings.TrimLeft(script, " ")
		if strings.HasPrefix(script, "!") {
			c.negated, script = true, strings.TrimLeft(script[1:], " ")
		}
		if script == "" {
			p.fail("missing command")
		}
		c.verb, script = script[0], script[1:]
		switch c.verb {
		case 'd', 'p', 'q', '=':
		case 'a', 'i', 'c':
			text := strings.TrimPrefix(strings.TrimLeft(script, " "), `\`)
			c.text, script, _ = strings.Cut(strings.TrimLeft(text, " \n"), "\n")
		case 's':
			var parts []string
			parts, script = splitSed(script, 3)
			if len(parts) < 2 {
				p.fail("bad option in substitution expression")
			}
			end := strings.IndexAny(script, " ;\n}")
			if end < 0 {
				end = len(script)
			}
			c.flags, script = script[:end], script[end:]
			c.pattern = p.compile(parts[0], extended, false, strings.ContainsAny(c.flags, "iI"))
			c.replacement = parts[1]
		default:
			p.fail("unsupported command %c", c.verb)
		}
		commands = append(commands, c)
	}
	return commands
}

// parseAddress parses an address, and returns the rest of the script.
func (p *proc) parseAddress(script string, extended bool) (sedAddress, string) {
	switch {
	case strings.HasPrefix(script, "$"):
		return sedAddress{last: true}, script[1:]
	case strings.HasPrefix(script, "/"):
		parts, rest := splitSed(script, 2)
		if len(parts) == 0 {
			p.fail("unterminated address")
		}
		return sedAddress{pattern: p.compile(parts[0], extended, false, false)}, rest
	}
	n := digits(script, len(script), 10)
	line, _ := strconv.Atoi(script[:n])
	return sedAddress{line: line}, script[n:]
}

// splitSed splits text at its first character up to n-1 parts, and returns what follows.
func splitSed(text string, n int) (parts []string, rest string) {
	if text == "" {
		return nil, ""
	}
	separator := text[0]
	part := ""
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			if text[i] != separator {
				part += `\`
			}
			part += text[i : i+1]
		case text[i] == separator:
			parts = append(parts, part)
			if part = ""; len(parts) == n-1 {
				return parts, text[i+1:]
			}
		default:
			part += text[i : i+1]
		}
	}
	return parts, ""
}

// runSed applies commands to lines.
func (p *proc) runSed(commands []*sedCommand, all []string, quiet bool) string {
	var b strings.Builder
	for i, line := range all {
		deleted, quit := false, false
		after := ""
		for _, c := range commands {
			if !c.selects(i+1, i == len(all)-1, line) {
				continue
			}
			switch c.verb {
			case 'd':
				deleted = true
			case 'p':
				b.WriteString(line + "\n")
			case '=':
				b.WriteString(strconv.Itoa(i+1) + "\n")
			case 'q':
				quit = true
			case 'i':
				b.WriteString(c.text + "\n")
			case 'a':
				after += c.text + "\n"
			case 'c':
				b.WriteString(c.text + "\n")
				deleted = true
			case 's':
				changed := c.substitute(line)
				if changed != line && strings.Contains(c.flags, "p") {
					b.WriteString(changed + "\n")
				}
				line = changed
			}
			if deleted || quit {
				break
			}
		}
		if !deleted && !quiet {
			b.WriteString(line + "\n")
		}
		b.WriteString(after)
		if quit {
			break
		}
	}
	return b.String()
}

// selects reports whether the command applies to a line.
func (c *sedCommand) selects(n int, last bool, line string) bool {
	selected := !c.from.given() || c.from.matches(n, last, line)
	if c.ranged {
		switch {
		case c.inside:
			selected = true
			c.inside = !c.to.matches(n, last, line)
		case selected:
			c.inside = c.to.line == 0 && !last || c.to.line > n
		}
	}
	return selected != c.negated
}

// substitute replaces the first match of a line, or all.
func (c *sedCommand) substitute(line string) string {
	limit := 1
	if strings.Contains(c.flags, "g") {
		limit = -1
	}
	var b strings.Builder
	at := 0
	matches := c.pattern.FindAllStringSubmatchIndex(line, limit)
	for _, m := range matches {
		b.WriteString(line[at:m[0]])
		for i := 0; i < len(c.replacement); i++ {
			r := c.replacement[i]
			switch {
			case r == '&':
				b.WriteString(line[m[0]:m[1]])
			case r == '\\' && i+1 < len(c.replacement):
				i++
				r = c.replacement[i]
				n := int(r - '0')
				switch {
				case r >= '0' && r <= '9':
					if 2*n+1 < len(m) && m[2*n] >= 0 {
						b.WriteString(line[m[2*n]:m[2*n+1]])
					}
				case r == 'n':
					b.WriteByte('\n')
				case r == 't':
					b.WriteByte('\t')
				default:
					b.WriteByte(r)
				}
			default:
				b.WriteByte(r)
			}
		}
		at = m[1]
	}
	return b.String() + line[at:]
}
