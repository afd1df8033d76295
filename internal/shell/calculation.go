package shell

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// calculationTools compute from their arguments.
var calculationTools = map[string]func(p *proc) int{
	"seq": toolSeq, "expr": toolExpr, "basename": toolBasename, "dirname": toolDirname,
}

func toolSeq(p *proc) int {
	options, args := map[byte]string{}, p.args
	if len(args) > 0 && (args[0] == "-s" || args[0] == "-w") {
		options, args = p.options("w", "s")
	}
	numbers := make([]float64, len(args))
	decimals := 0
	for i, arg := range args {
		n, err := strconv.ParseFloat(arg, 64)
		if err != nil {
			return p.fail("invalid number '%s'", arg)
		}
		numbers[i] = n
		if _, fraction, ok := strings.Cut(arg, "."); ok {
			decimals = max(decimals, len(fraction))
		}
	}
	first, step, last := 1.0, 1.0, 0.0
	switch len(args) {
	case 1:
		last = numbers[0]
	case 2:
		first, last = numbers[0], numbers[1]
	case 3:
		first, step, last = numbers[0], numbers[1], numbers[2]
	default:
		return p.fail("missing operand")
	}
	separator, ok := options['s']
	if !ok {
		separator = "\n"
	}
	width := 0
	if has(options, 'w') {
		width = len(strconv.FormatFloat(last, 'f', decimals, 64))
	}
	if step == 0 {
		return p.fail("invalid increment")
	}
	printed := false
	for i := 0; ; i++ {
		n := first + float64(i)*step
		if step > 0 && n > last+1e-9 || step < 0 && n < last-1e-9 {
			break
		}
		if printed {
			p.print(separator)
		}
		text := strconv.FormatFloat(n, 'f', decimals, 64)
		p.print(strings.Repeat("0", max(0, width-len(text))) + text)
		printed = true
		p.s.t.tick()
	}
	if printed {
		p.print("\n")
	}
	return 0
}

func toolBasename(p *proc) int {
	if len(p.args) == 0 {
		return p.fail("missing operand")
	}
	name := path.Base(p.args[0])
	if len(p.args) > 1 && name != p.args[1] {
		name = strings.TrimSuffix(name, p.args[1])
	}
	p.print(name + "\n")
	return 0
}

func toolDirname(p *proc) int {
	if len(p.args) == 0 {
		return p.fail("missing operand")
	}
	name := strings.TrimRight(p.args[0], "/")
	if name == "" {
		name = "/"
	}
	p.print(path.Dir(name) + "\n")
	return 0
}

// An expression evaluates the arguments of expr.
type expression struct {
	p    *proc
	args []string
}

// exprLevels are the operators of expr, by precedence.
var exprLevels = [][]string{{"|"}, {"&"}, {"=", "==", "!=", "<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}, {":"}}

func toolExpr(p *proc) int {
	e := &expression{p, p.args}
	value := e.level(0)
	if len(e.args) > 0 {
		e.fail()
	}
	p.print(value + "\n")
	return oneIf(value == "" || value == "0")
}

func (e *expression) fail() {
	e.p.errorf("syntax error")
	e.p.mustFlush()
	panic(exit{2})
}

func (e *expression) level(n int) string {
	if n == len(exprLevels) {
		return e.primary()
	}
	value := e.level(n + 1)
	for len(e.args) > 1 {
		found := false
		for _, operator := range exprLevels[n] {
			if e.args[0] == operator {
				e.args = e.args[1:]
				value = e.apply(operator, value, e.level(n+1))
				found = true
				break
			}
		}
		if !found {
			break
		}
	}
	return value
}

func (e *expression) primary() string {
	if len(e.args) == 0 {
		e.fail()
	}
	arg := e.args[0]
	e.args = e.args[1:]
	if arg == "(" {
		value := e.level(0)
		if len(e.args) == 0 || e.args[0] != ")" {
			e.fail()
		}
		e.args = e.args[1:]
		return value
	}
	if arg == "length" && len(e.args) > 0 {
		return strconv.Itoa(len(e.primary()))
	}
	return arg
}

func (e *expression) apply(operator, left, right string) string {
	a, err1 := strconv.ParseInt(left, 10, 64)
	b, err2 := strconv.ParseInt(right, 10, 64)
	truth := func(v bool) string { return strconv.Itoa(oneIf(v)) }
	switch operator {
	case "|":
		if left != "" && left != "0" {
			return left
		}
		return right
	case "&":
		if left != "" && left != "0" && right != "" && right != "0" {
			return left
		}
		return "0"
	case ":":
		match := regexp.MustCompile(`^(?:` + e.p.compile(right, false, false, false).String() + `)`).FindStringSubmatch(left)
		switch {
		case len(match) > 1:
			return match[1]
		case match == nil && strings.Contains(right, `\(`):
			return ""
		case match == nil:
			return "0"
		}
		return strconv.Itoa(len(match[0]))
	}
	compared := strings.Compare(left, right)
	if err1 == nil && err2 == nil {
		compared = 0
		if a < b {
			compared = -1
		} else if a > b {
			compared = 1
		}
	}
	switch operator {
	case "=", "==":
		return truth(compared == 0)
	case "!=":
		return truth(compared != 0)
	case "<":
		return truth(compared < 0)
	case "<=":
		return truth(compared <= 0)
	case ">":
		return truth(compared > 0)
	case ">=":
		return truth(compared >= 0)
	}
	if err1 != nil || err2 != nil {
		e.p.errorf("non-numeric argument")
		panic(exit{2})
	}
	switch operator {
	case "+":
		a += b
	case "-":
		a -= b
	case "*":
		a *= b
	default:
		if b == 0 {
			e.p.errorf("division by zero")
			panic(exit{2})
		}
		if operator == "/" {
			a /= b
		} else {
			a %= b
		}
	}
	return strconv.FormatInt(a, 10)
}
