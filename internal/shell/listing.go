package shell

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/volsim/volsim/plugins/nodefs"
)

// An entry is a row of ls.
type entry struct {
	name   string
	here   place
	size   int64
	target string // of a link
}

func toolLs(p *proc) int {
	options, names := p.options("alA1dRhnFitrSsCpL", "")
	if len(names) == 0 {
		names = []string{"."}
	}
	var files []entry
	var dirs []string
	for _, name := range names {
		e, err := p.entryOf(name, name)
		if err == nil && e.here.isLink() && !has(options, 'l') && !has(options, 'd') {
			if to, err2 := p.s.stat(name, true); err2 == nil {
				e.here = to
			}
		}
		switch {
		case err != nil:
			p.errorf("%s: %s", name, errorText(err))
		case e.here.isDir() && !has(options, 'd'):
			dirs = append(dirs, name)
		default:
			files = append(files, e)
		}
	}
	p.listEntries(files, options)
	for i, dir := range dirs {
		if i > 0 || len(files) > 0 {
			p.print("\n")
		}
		p.listDir(dir, options, len(names) > 1)
	}
	return p.code
}

// entryOf returns the row of a path, which does not follow a link.
func (p *proc) entryOf(name, display string) (e entry, err error) {
	err = p.s.at("stat", name, false, func(disk nodefs.FS, here place) error {
		if !here.exists {
			return fs.ErrNotExist
		}
		e = entry{name: display, here: here, size: p.s.view().size(here)}
		if here.isLink() {
			e.target, _ = disk.Readlink(here.node)
		}
		return nil
	})
	return e, err
}

// listDir prints a directory.
func (p *proc) listDir(dir string, options map[byte]string, header bool) {
	names, err := p.s.readDir(dir)
	if err != nil {
		p.errorf("%s: %s", dir, errorText(err))
		return
	}
	if header || has(options, 'R') {
		p.print(dir + ":\n")
	}
	var entries []entry
	var dirs []string
	if has(options, 'a') {
		names = append([]string{".", ".."}, names...)
	}
	for _, name := range names {
		if name[0] == '.' && !has(options, 'a') && !has(options, 'A') {
			continue
		}
		e, err := p.entryOf(strings.TrimSuffix(dir, "/")+"/"+name, name)
		if err != nil {
			continue // removed in the meantime
		}
		entries = append(entries, e)
		if e.here.isDir() && name != "." && name != ".." {
			dirs = append(dirs, strings.TrimSuffix(dir, "/")+"/"+name)
		}
	}
	if has(options, 'l') {
		p.print("total " + strconv.Itoa(4*len(entries)) + "\n")
	}
	p.listEntries(entries, options)
	if has(options, 'R') {
		for _, each := range dirs {
			p.print("\n")
			p.listDir(each, options, true)
		}
	}
}

// listEntries prints rows.
func (p *proc) listEntries(entries []entry, options map[byte]string) {
	for i := range entries {
		e := entries[i]
		if has(options, 'r') {
			e = entries[len(entries)-1-i]
		}
		name := e.name
		if has(options, 'F') || has(options, 'p') {
			switch {
			case e.here.isDir():
				name += "/"
			case has(options, 'F') && e.here.isLink():
				name += "@"
			case has(options, 'F') && e.here.info.Mode&0o111 != 0:
				name += "*"
			}
		}
		if has(options, 'i') {
			p.printf("%7d ", 1)
		}
		if !has(options, 'l') {
			p.print(name + "\n")
			continue
		}
		owner, group := userName(e.here.info.UID), groupName(e.here.info.GID)
		if has(options, 'n') {
			owner, group = strconv.Itoa(e.here.info.UID), strconv.Itoa(e.here.info.GID)
		}
		size := strconv.FormatInt(e.size, 10)
		if has(options, 'h') {
			size = human(e.size)
		}
		p.printf("%s %4d %-8s %-8s %9s %s %s", modeText(e.here.info.Mode), 1, owner, group, size,
			p.s.t.c.created.Format("Jan _2 15:04"), name)
		if e.target != "" {
			p.print(" -> " + e.target)
		}
		p.print("\n")
	}
}

func userName(uid int) string {
	switch uid {
	case 0:
		return "root"
	case 65534:
		return "nobody"
	}
	return strconv.Itoa(uid)
}

func groupName(gid int) string {
	switch gid {
	case 0:
		return "root"
	case 65534:
		return "nogroup"
	}
	return strconv.Itoa(gid)
}

// modeText returns a mode as ls prints it.
func modeText(mode fs.FileMode) string {
	text := []byte("-rwxrwxrwx")
	for i := range 9 {
		if mode&(1<<(8-i)) == 0 {
			text[i+1] = '-'
		}
	}
	switch {
	case mode.IsDir():
		text[0] = 'd'
	case mode&fs.ModeSymlink != 0:
		text[0] = 'l'
	case mode&fs.ModeCharDevice != 0:
		text[0] = 'c'
	case mode&fs.ModeDevice != 0:
		text[0] = 'b'
	}
	special := func(at int, bit fs.FileMode, letter byte) {
		if mode&bit == 0 {
			return
		}
		if text[at] == '-' {
			letter -= 'a' - 'A'
		}
		text[at] = letter
	}
	special(3, fs.ModeSetuid, 's')
	special(6, fs.ModeSetgid, 's')
	special(9, fs.ModeSticky, 't')
	return string(text)
}

// human returns a size with a unit.
func human(size int64) string {
	units := " KMGTP"
	value := float64(size)
	i := 0
	for value >= 1024 && i < len(units)-1 {
		value /= 1024
		i++
	}
	if i == 0 {
		return strconv.FormatInt(size, 10)
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + units[i:i+1]
}

func toolFind(p *proc) int {
	args := p.args
	var tops []string
	for len(args) > 0 && args[0][0] != '-' && args[0] != "!" && args[0] != "(" {
		tops, args = append(tops, args[0]), args[1:]
	}
	if len(tops) == 0 {
		tops = []string{"."}
	}
	f := finder{p: p, depthMax: -1}
	f.parse(args)
	for _, top := range tops {
		f.visit(top, 0)
	}
	return p.code
}

// A finder visits a tree.
type finder struct {
	p                  *proc
	tests              []func(name string, e entry) bool
	actions            []func(name string)
	depthMax, depthMin int
	depthFirst         bool
}

// parse reads the expression.
func (f *finder) parse(args []string) {
	next := func() string {
		if len(args) == 0 {
			f.p.fail("missing argument")
		}
		arg := args[0]
		args = args[1:]
		return arg
	}
	negate := false
	add := func(test func(name string, e entry) bool) {
		wanted := !negate
		negate = false
		f.tests = append(f.tests, func(name string, e entry) bool { return test(name, e) == wanted })
	}
	for len(args) > 0 {
		switch option := next(); option {
		case "!", "-not":
			negate = true
		case "-a", "-and", "-xdev", "-mount":
		case "-name", "-iname":
			pattern := next()
			add(func(name string, _ entry) bool { return matches(pattern, path.Base(name)) })
		case "-path":
			pattern := next()
			add(func(name string, _ entry) bool { return matches(pattern, name) })
		case "-type":
			kind := next()
			add(func(_ string, e entry) bool {
				return strings.Replace(modeText(e.here.info.Mode)[:1], "-", "f", 1) == kind
			})
		case "-empty":
			add(func(_ string, e entry) bool { return e.here.isRegular() && e.size == 0 })
		case "-size":
			size := next()
			n, err := count(strings.TrimLeft(size, "+-"))
			if err != nil {
				f.p.fail("invalid number '%s'", size)
			}
			add(func(_ string, e entry) bool {
				return size[0] == '+' && e.size > n || size[0] == '-' && e.size < n || e.size == n
			})
		case "-maxdepth":
			f.depthMax, _ = strconv.Atoi(next())
		case "-mindepth":
			f.depthMin, _ = strconv.Atoi(next())
		case "-depth":
			f.depthFirst = true
		case "-print":
			f.actions = append(f.actions, func(name string) { f.p.print(name + "\n") })
		case "-print0":
			f.actions = append(f.actions, func(name string) { f.p.print(name + "\x00") })
		case "-delete":
			f.depthFirst = true
			f.actions = append(f.actions, func(name string) { f.p.remove(name, false, true) })
		case "-exec":
			f.exec(&args)
		default:
			f.p.errorf("unrecognized: %s", option)
			panic(exit{1})
		}
	}
	if len(f.actions) == 0 {
		f.actions = append(f.actions, func(name string) { f.p.print(name + "\n") })
	}
}

// exec adds the command of -exec.
func (f *finder) exec(args *[]string) {
	var command []string
	for len(*args) > 0 {
		arg := (*args)[0]
		*args = (*args)[1:]
		if arg == ";" || arg == "+" {
			break
		}
		command = append(command, arg)
	}
	f.actions = append(f.actions, func(name string) {
		filled := make([]string, len(command))
		for i, arg := range command {
			filled[i] = strings.ReplaceAll(arg, "{}", name)
		}
		f.p.mustFlush()
		f.p.s.runProgram(filled)
	})
}

// visit visits a path and all below it.
func (f *finder) visit(name string, depth int) {
	e, err := f.p.entryOf(name, name)
	if err != nil {
		f.p.errorf("%s: %s", name, errorText(err))
		return
	}
	act := func() {
		if depth < f.depthMin {
			return
		}
		for _, test := range f.tests {
			if !test(name, e) {
				return
			}
		}
		for _, action := range f.actions {
			action(name)
		}
	}
	if !f.depthFirst {
		act()
	}
	if e.here.isDir() && (f.depthMax < 0 || depth < f.depthMax) {
		names, err := f.p.s.readDir(name)
		f.p.report(name, err)
		for _, each := range names {
			f.visit(strings.TrimSuffix(name, "/")+"/"+each, depth+1)
		}
	}
	if f.depthFirst {
		act()
	}
}

func toolDu(p *proc) int {
	options, names := p.options("shkmabc", "d")
	if len(names) == 0 {
		names = []string{"."}
	}
	unit := int64(1024)
	switch {
	case has(options, 'b'):
		unit = 1
	case has(options, 'm'):
		unit = 1 << 20
	}
	show := func(size int64, name string) {
		if has(options, 'h') {
			p.printf("%s\t%s\n", human(size), name)
			return
		}
		p.printf("%d\t%s\n", (size+unit-1)/unit, name)
	}
	var visit func(name string, depth int) int64
	visit = func(name string, depth int) int64 {
		e, err := p.entryOf(name, name)
		if err != nil {
			p.errorf("%s: %s", name, errorText(err))
			return 0
		}
		size := e.size
		if !has(options, 'b') {
			size = (size + 4095) / 4096 * 4096
		}
		if e.here.isDir() {
			each, err := p.s.readDir(name)
			p.report(name, err)
			for _, n := range each {
				size += visit(strings.TrimSuffix(name, "/")+"/"+n, depth+1)
			}
		}
		if depth == 0 || !has(options, 's') && (e.here.isDir() || has(options, 'a')) {
			show(size, name)
		}
		return size
	}
	for _, name := range names {
		visit(name, 0)
	}
	return p.code
}
