package shell

import (
	"io/fs"
	"strconv"
)

// A condition evaluates the arguments of test.
type condition struct {
	p    *proc
	args []string
}

// builtinTest evaluates a condition.
func builtinTest(p *proc) int {
	args := p.args
	if p.name == "[" || p.name == "[[" {
		closing := map[string]string{"[": "]", "[[": "]]"}[p.name]
		if len(args) == 0 || args[len(args)-1] != closing {
			p.s.errorf("missing %s", closing)
			return 2
		}
		args = args[:len(args)-1]
	}
	if len(args) == 0 {
		return 1
	}
	c := condition{p, args}
	code, unwinding := frame(func() int {
		result := c.or()
		if len(c.args) > 0 {
			c.fail(c.args[0] + ": unknown operand")
		}
		return oneIf(!result)
	})
	absorb(unwinding)
	return code
}

// fail ends the evaluation with exit code 2.
func (c *condition) fail(message string) {
	c.p.s.errorf("%s", message)
	panic(exit{2})
}

func (c *condition) peek() string {
	if len(c.args) == 0 {
		return ""
	}
	return c.args[0]
}

func (c *condition) next() string {
	if len(c.args) == 0 {
		c.fail("argument expected")
	}
	arg := c.args[0]
	c.args = c.args[1:]
	return arg
}

func (c *condition) or() bool {
	result := c.and()
	for c.peek() == "-o" || c.peek() == "||" {
		c.next()
		right := c.and()
		result = result || right
	}
	return result
}

func (c *condition) and() bool {
	result := c.not()
	for c.peek() == "-a" || c.peek() == "&&" {
		c.next()
		right := c.not()
		result = result && right
	}
	return result
}

func (c *condition) not() bool {
	if c.peek() == "!" && len(c.args) > 1 {
		c.next()
		return !c.not()
	}
	return c.primary()
}

func (c *condition) primary() bool {
	if len(c.args) >= 3 {
		if compare := c.binary(c.args[1]); compare != nil {
			left, right := c.args[0], c.args[2]
			c.args = c.args[3:]
			return compare(left, right)
		}
	}
	if c.peek() == "(" && len(c.args) > 1 {
		c.next()
		result := c.or()
		if c.next() != ")" {
			c.fail("closing paren expected")
		}
		return result
	}
	arg := c.next()
	if len(arg) == 2 && arg[0] == '-' && len(c.args) > 0 {
		return c.unary(arg[1], c.next())
	}
	return arg != ""
}

// binary returns the comparison of an operator, or nil.
func (c *condition) binary(operator string) func(left, right string) bool {
	switch operator {
	case "=", "==":
		if c.p.name == "[[" {
			return func(left, right string) bool { return matches(right, left) }
		}
		return func(left, right string) bool { return left == right }
	case "!=":
		return func(left, right string) bool { return left != right }
	case "<":
		return func(left, right string) bool { return left < right }
	case ">":
		return func(left, right string) bool { return left > right }
	case "-eq":
		return c.numeric(func(a, b int64) bool { return a == b })
	case "-ne":
		return c.numeric(func(a, b int64) bool { return a != b })
	case "-lt":
		return c.numeric(func(a, b int64) bool { return a < b })
	case "-le":
		return c.numeric(func(a, b int64) bool { return a <= b })
	case "-gt":
		return c.numeric(func(a, b int64) bool { return a > b })
	case "-ge":
		return c.numeric(func(a, b int64) bool { return a >= b })
	case "-ef":
		return func(left, right string) bool {
			a, err := c.p.s.stat(left, true)
			b, err2 := c.p.s.stat(right, true)
			return err == nil && err2 == nil && a.path == b.path
		}
	}
	return nil
}

func (c *condition) numeric(compare func(a, b int64) bool) func(left, right string) bool {
	return func(left, right string) bool { return compare(c.number(left), c.number(right)) }
}

func (c *condition) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		c.fail(text + ": bad number")
	}
	return n
}

// unary evaluates an operator with one operand.
func (c *condition) unary(operator byte, operand string) bool {
	s := c.p.s
	switch operator {
	case 'n':
		return operand != ""
	case 'z':
		return operand == ""
	case 't':
		fd, err := strconv.Atoi(operand)
		h := s.fds.get(fd)
		if err != nil || h == nil {
			return false
		}
		_, terminal := h.stream.(*outputStream)
		return terminal && s.t.c.spec.TTY
	case 's':
		size, err := s.sizeOf(operand, true)
		return err == nil && size > 0
	}
	here, err := s.stat(operand, operator != 'L' && operator != 'h')
	if err != nil {
		return false
	}
	mode := here.info.Mode
	switch operator {
	case 'e':
		return true
	case 'f':
		return mode.IsRegular()
	case 'd':
		return mode.IsDir()
	case 'L', 'h':
		return mode&fs.ModeSymlink != 0
	case 'b':
		return mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
	case 'c':
		return mode&fs.ModeCharDevice != 0
	case 'p':
		return mode&fs.ModeNamedPipe != 0
	case 'S':
		return mode&fs.ModeSocket != 0
	case 'u':
		return mode&fs.ModeSetuid != 0
	case 'g':
		return mode&fs.ModeSetgid != 0
	case 'k':
		return mode&fs.ModeSticky != 0
	case 'r':
		return true
	case 'w':
		return !here.readOnly || mode&fs.ModeCharDevice != 0
	case 'x':
		return mode.IsDir() || mode&0o111 != 0
	case 'O', 'G':
		return here.info.UID == 0
	}
	c.fail("-" + string(operator) + ": unknown operand")
	return false
}
