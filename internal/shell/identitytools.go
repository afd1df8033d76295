package shell

import (
	"fmt"
	"strings"
	"time"
)

// dateVerbs maps the letters of date formats to layouts of package time.
var dateVerbs = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'F': "2006-01-02", 'T': "15:04:05", 'Z': "MST",
	'z': "-0700", 'y': "06", 'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday", 'e': "_2", 'I': "03", 'p': "PM",
	'D': "01/02/06", 'R': "15:04", 'j': "002", 'c': "Mon Jan _2 15:04:05 2006",
}

// toolDate prints the time of the world.
func toolDate(p *proc) int {
	options, args := p.options("uR", "dI")
	now := p.s.t.now().UTC()
	if text, ok := options['d']; ok && strings.HasPrefix(text, "@") {
		var seconds int64
		if _, err := fmt.Sscan(text[1:], &seconds); err != nil {
			return p.fail("invalid date '%s'", text)
		}
		now = time.Unix(seconds, 0).UTC()
	}
	format := "+%a %b %e %H:%M:%S UTC %Y"
	if _, ok := options['I']; ok {
		format = "+%FT%T%z"
	}
	if len(args) > 0 {
		format = args[0]
	}
	if format[0] != '+' {
		return p.fail("can't set date: Operation not permitted")
	}
	for i := 1; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			p.print(format[i : i+1])
			continue
		}
		i++
		switch layout := dateVerbs[format[i]]; {
		case layout != "":
			p.print(now.Format(layout))
		case format[i] == 's':
			p.printf("%d", now.Unix())
		case format[i] == 'N':
			p.printf("%09d", now.Nanosecond())
		case format[i] == 'n':
			p.print("\n")
		default:
			p.print(strings.Replace(format[i-1:i+1], "%%", "%", 1))
		}
	}
	p.print("\n")
	return 0
}

func toolID(p *proc) int {
	options, _ := p.options("ugnGr", "")
	switch {
	case has(options, 'n'):
		p.print("root\n")
	case len(options) > 0:
		p.print("0\n")
	default:
		p.print("uid=0(root) gid=0(root) groups=0(root)\n")
	}
	return 0
}

func toolWhoami(p *proc) int {
	p.print("root\n")
	return 0
}

func toolHostname(p *proc) int {
	p.print(p.s.t.c.spec.Hostname + "\n")
	return 0
}

func toolUname(p *proc) int {
	options, _ := p.options("asnrvmpo", "")
	var parts []string
	for _, each := range []struct {
		letter byte
		text   string
	}{
		{'s', "Linux"},
		{'n', p.s.t.c.spec.Hostname},
		{'r', "6.12.0"},
		{'v', "#1 SMP"},
		{'m', "x86_64"},
		{'o', "GNU/Linux"},
	} {
		if has(options, each.letter) || has(options, 'a') || len(options) == 0 && each.letter == 's' {
			parts = append(parts, each.text)
		}
	}
	p.print(strings.Join(parts, " ") + "\n")
	return 0
}

// toolPs lists the processes of the container. Those in the foreground of a shell are not listed.
func toolPs(p *proc) int {
	p.print("PID   USER     TIME  COMMAND\n")
	for _, t := range p.s.t.c.tasks {
		command := "sh"
		if t == t.c.init {
			command = strings.Join(t.c.spec.Args, " ")
		}
		p.printf("%5d root      0:00 %s\n", t.pid, command)
	}
	return 0
}
