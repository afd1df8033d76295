package shell

import (
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// textTools transform lines.
var textTools = map[string]func(p *proc) int{
	"grep": toolGrep, "egrep": toolGrep, "fgrep": toolGrep,
	"sort": toolSort, "uniq": toolUniq, "cut": toolCut, "tr": toolTr,
	"rev": toolRev, "awk": toolAwk, "sed": toolSed,
}

// basicToExtended rewrites a basic regular expression, in which \( is a group and ( a character.
func basicToExtended(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text) && strings.IndexByte("(){}|+?", text[i+1]) >= 0:
			i++
			b.WriteByte(text[i])
		case c == '\\' && i+1 < len(text):
			b.WriteString(text[i : i+2])
			i++
		case strings.IndexByte("(){}|+?", c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '*' && (i == 0 || i == 1 && text[0] == '^'):
			b.WriteString(`\*`)
		case c == '[':
			end := strings.IndexByte(text[min(i+2, len(text)):], ']')
			if end < 0 {
				b.WriteByte(c)
				continue
			}
			for strings.HasPrefix(text[i+2+end-1:], ":]") && i+2+end+1 < len(text) {
				more := strings.IndexByte(text[i+2+end+1:], ']')
				if more < 0 {
					break
				}
				end += 1 + more
			}
			b.WriteString(text[i : i+2+end+1])
			i += 2 + end
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// compile compiles a regular expression of grep or sed.
func (p *proc) compile(text string, extended, fixed, fold bool) *regexp.Regexp {
	switch {
	case fixed:
		text = regexp.QuoteMeta(text)
	case !extended:
		text = basicToExtended(text)
	}
	if fold {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		p.errorf("bad regex '%s'", text)
		panic(exit{2})
	}
	return re
}

func toolGrep(p *proc) int {
	options, args := p.options("qvciEoFnHhlsrRwxa", "emABC")
	text, ok := options['e']
	if !ok {
		if len(args) == 0 {
			p.warn("grep: no pattern")
			return 2
		}
		text, args = args[0], args[1:]
	}
	alternatives := strings.Split(text, "\n")
	var expressions []*regexp.Regexp
	for _, each := range alternatives {
		fixed, extended := has(options, 'F') || p.name == "fgrep", has(options, 'E') || p.name == "egrep"
		if !fixed && !extended {
			each, extended = basicToExtended(each), true
		}
		if fixed {
			each, fixed, extended = regexp.QuoteMeta(each), false, true
		}
		if has(options, 'w') {
			each = `\b(?:` + each + `)\b`
		}
		if has(options, 'x') {
			each = `^(?:` + each + `)$`
		}
		expressions = append(expressions, p.compile(each, extended, fixed, has(options, 'i')))
	}
	if has(options, 'r') || has(options, 'R') {
		args = p.filesBelow(args)
	}
	withName := has(options, 'H') || (len(args) > 1 || has(options, 'r') || has(options, 'R')) && !has(options, 'h')
	limit, err := strconv.Atoi(options['m'])
	if err != nil {
		limit = -1
	}
	selected := false
	p.withInputs(args, func(name string, r io.Reader) error {
		n, number := 0, 0
		prefix := ""
		if withName {
			prefix = name + ":"
		}
		err := lines(r, func(line string) bool {
			number++
			line = chomp(line)
			i := slices.IndexFunc(expressions, func(re *regexp.Regexp) bool { return re.MatchString(line) })
			if (i >= 0) == has(options, 'v') {
				return true
			}
			n++
			selected = true
			if has(options, 'q') || has(options, 'l') {
				return false
			}
			where := prefix
			if has(options, 'n') {
				where += strconv.Itoa(number) + ":"
			}
			switch {
			case has(options, 'c'):
			case has(options, 'o') && i >= 0:
				for _, match := range expressions[i].FindAllString(line, -1) {
					if match != "" {
						p.print(where + match + "\n")
					}
				}
			default:
				p.print(where + line + "\n")
			}
			return n != limit
		})
		switch {
		case has(options, 'c'):
			p.printf("%s%d\n", prefix, n)
		case has(options, 'l') && n > 0:
			p.print(name + "\n")
		}
		return err
	})
	switch {
	case has(options, 'q') && selected:
		p.code = 0
		return 0
	case p.code > 0:
		return 2
	}
	return oneIf(!selected)
}

// filesBelow returns the files in directories.
func (p *proc) filesBelow(names []string) []string {
	if len(names) == 0 {
		names = []string{"."}
	}
	var files []string
	for _, name := range names {
		p.walkTree(name, true, func(name string, here place) {
			if here.isRegular() {
				files = append(files, name)
			}
		})
	}
	return files
}

// allLines returns the lines of files, without newlines.
func (p *proc) allLines(names []string) []string {
	var all []string
	p.withInputs(names, func(_ string, r io.Reader) error {
		return lines(r, func(line string) bool { all = append(all, chomp(line)); return true })
	})
	return all
}

func toolSort(p *proc) int {
	options, names := p.options("nruhfbsVg", "ktoTS")
	all := p.allLines(names)
	key := func(line string) string {
		field, _, _ := strings.Cut(options['k'], ",")
		field, _, _ = strings.Cut(strings.TrimRight(field, "nrhb"), ".")
		n, err := strconv.Atoi(field)
		if err != nil {
			return line
		}
		fields := strings.Fields(line)
		if separator, ok := options['t']; ok {
			fields = strings.Split(line, separator)
		}
		if n > len(fields) {
			return ""
		}
		return strings.Join(fields[n-1:], " ")
	}
	numeric := has(options, 'n') || has(options, 'g') || strings.Contains(options['k'], "n")
	reverse := has(options, 'r') || strings.Contains(options['k'], "r")
	compare := func(a, b string) int {
		x, y := key(a), key(b)
		c := strings.Compare(x, y)
		if has(options, 'f') {
			c = strings.Compare(strings.ToLower(x), strings.ToLower(y))
		}
		if numeric {
			m, n := leadingNumber(x), leadingNumber(y)
			if m != n {
				c = 1
				if m < n {
					c = -1
				}
			} else if has(options, 'u') {
				c = 0
			} else {
				c = strings.Compare(a, b)
			}
		}
		if reverse {
			c = -c
		}
		return c
	}
	slices.SortStableFunc(all, compare)
	if has(options, 'u') {
		all = slices.CompactFunc(all, func(a, b string) bool { return compare(a, b) == 0 })
	}
	var b strings.Builder
	for _, line := range all {
		b.WriteString(line + "\n")
	}
	if file, ok := options['o']; ok {
		p.report(file, p.s.writeFile(file, []byte(b.String()), 0o666))
		return p.code
	}
	p.print(b.String())
	return p.code
}

var numberPrefix = regexp.MustCompile(`^\s*[-+]?[0-9]*\.?[0-9]*`)

func leadingNumber(text string) float64 {
	n, _ := strconv.ParseFloat(strings.TrimSpace(numberPrefix.FindString(text)), 64)
	return n
}

func toolUniq(p *proc) int {
	options, names := p.options("cdui", "")
	n := 0
	previous := ""
	show := func() {
		if n == 0 || has(options, 'd') && n == 1 || has(options, 'u') && n > 1 {
			return
		}
		if has(options, 'c') {
			p.printf("%7d ", n)
		}
		p.print(previous + "\n")
	}
	for _, line := range p.allLines(names[:min(1, len(names))]) {
		if n > 0 && line == previous {
			n++
			continue
		}
		show()
		n, previous = 1, line
	}
	show()
	return p.code
}

// ranges parses a list such as 1,3-5,7-.
func (p *proc) ranges(text string) func(n int) bool {
	type span struct{ from, to int }
	var spans []span
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if first == "" && isRange {
			from, err1 = 1, nil
		}
		if !isRange {
			to, err2 = from, nil
		} else if last == "" {
			to, err2 = 1<<31, nil
		}
		if err1 != nil || err2 != nil {
			p.fail("invalid byte or field list")
		}
		spans = append(spans, span{from, to})
	}
	return func(n int) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return n >= s.from && n <= s.to })
	}
}

func toolCut(p *proc) int {
	options, names := p.options("sn", "dfcb")
	separator := "\t"
	if text, ok := options['d']; ok && text != "" {
		separator = text
	}
	list, inFields := options['f'], true
	for _, letter := range []byte("cb") {
		if text, ok := options[letter]; ok {
			list, inFields = text, false
		}
	}
	if list == "" {
		return p.fail("expected a list of bytes, characters, or fields")
	}
	wanted := p.ranges(list)
	for _, line := range p.allLines(names) {
		parts, glue := strings.Split(line, ""), ""
		if inFields {
			if !strings.Contains(line, separator) {
				if !has(options, 's') {
					p.print(line + "\n")
				}
				continue
			}
			parts, glue = strings.Split(line, separator), separator
		}
		var kept []string
		for i, part := range parts {
			if wanted(i + 1) {
				kept = append(kept, part)
			}
		}
		p.print(strings.Join(kept, glue) + "\n")
	}
	return p.code
}

// characters expands a set of tr.
func characters(text string) []byte {
	for name, members := range map[string]string{
		"[:lower:]": "a-z", "[:upper:]": "A-Z", "[:digit:]": "0-9", "[:alpha:]": "A-Za-z", "[:alnum:]": "0-9A-Za-z",
		"[:space:]": "\t\n\v\f\r ", "[:blank:]": "\t ", "[:punct:]": "!-/:-@[-`{-~",
	} { // any order: names are distinct
		text = strings.ReplaceAll(text, name, members)
	}
	text, _ = unescape(text, false)
	var set []byte
	for i := 0; i < len(text); i++ {
		if i+2 < len(text) && text[i+1] == '-' {
			for c := int(text[i]); c <= int(text[i+2]); c++ {
				set = append(set, byte(c)) //nolint:gosec // at most 255
			}
			i += 2
			continue
		}
		set = append(set, text[i])
	}
	return set
}

func toolTr(p *proc) int {
	options, args := p.options("dscC", "")
	if len(args) == 0 {
		return p.fail("missing operand")
	}
	from := characters(args[0])
	var to []byte
	if len(args) > 1 {
		to = characters(args[1])
	}
	complement := has(options, 'c') || has(options, 'C')
	squeezed := to
	if len(args) == 1 {
		squeezed = from
	}
	data, err := io.ReadAll(p.stdin())
	if err != nil {
		p.report("stdin", err)
	}
	var out []byte
	for _, c := range data {
		i := slices.Index(from, c)
		found := (i >= 0) != complement
		if found && has(options, 'd') {
			continue
		}
		if found && len(to) > 0 && !has(options, 'd') {
			if complement {
				i = len(to) - 1
			}
			c = to[min(i, len(to)-1)]
		}
		inSet := slices.Contains(squeezed, c) != (complement && len(args) == 1)
		if has(options, 's') && inSet && len(out) > 0 && out[len(out)-1] == c {
			continue
		}
		out = append(out, c)
	}
	p.print(string(out))
	return p.code
}

func toolRev(p *proc) int {
	for _, line := range p.allLines(p.args) {
		runes := []rune(line)
		slices.Reverse(runes)
		p.print(string(runes) + "\n")
	}
	return p.code
}

var awkPrint = regexp.MustCompile(`^\s*(?:(NR\s*==\s*\d+|/[^/]*/)\s*)?\{\s*print\s*([^}]*?)\s*;?\s*\}\s*$`)

// toolAwk supports one action, which prints fields and texts, with an optional condition.
func toolAwk(p *proc) int {
	options, args := p.options("", "F")
	if len(args) == 0 {
		return p.fail("missing program")
	}
	match := awkPrint.FindStringSubmatch(args[0])
	if match == nil {
		return p.fail("only {print …} is supported by the simulated tool")
	}
	separator, given := options['F']
	for i, line := range p.allLines(args[1:]) {
		if condition := match[1]; condition != "" {
			if condition[0] == '/' && !p.compile(condition[1:len(condition)-1], true, false, false).MatchString(line) {
				continue
			}
			number := strings.TrimSpace(condition[strings.LastIndexByte(condition, '=')+1:])
			if condition[0] == 'N' && number != strconv.Itoa(i+1) {
				continue
			}
		}
		fields := strings.Fields(line)
		if given && separator != " " {
			fields = strings.Split(line, separator)
		}
		var columns []string
		for item := range strings.SplitSeq(match[2], ",") {
			columns = append(columns, awkText(strings.Fields(item), line, fields, i+1))
		}
		if match[2] == "" {
			columns = []string{line}
		}
		p.print(strings.Join(columns, " ") + "\n")
	}
	return p.code
}

// awkText returns the concatenation of fields and texts.
func awkText(items []string, line string, fields []string, number int) string {
	text := ""
	for _, item := range items {
		switch {
		case item == "$0":
			text += line
		case item == "NR":
			text += strconv.Itoa(number)
		case item == "NF":
			text += strconv.Itoa(len(fields))
		case item == "$NF" && len(fields) > 0:
			text += fields[len(fields)-1]
		case strings.HasPrefix(item, "$"):
			if n, err := strconv.Atoi(item[1:]); err == nil && n >= 1 && n <= len(fields) {
				text += fields[n-1]
			}
		default:
			text += strings.Trim(item, `"`)
		}
	}
	return text
}
