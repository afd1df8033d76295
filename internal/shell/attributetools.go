package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/volsim/volsim/plugins/nodefs"
)

// attributeTools show and change attributes of files and file systems.
var attributeTools = map[string]func(p *proc) int{
	"stat": toolStat, "chmod": toolChmod, "chown": toolChown, "chgrp": toolChown, "truncate": toolTruncate, "df": toolDf,
	"mount": toolMount, "mountpoint": toolMountpoint, "sync": toolSync, "fsync": toolSync,
}

func toolStat(p *proc) int {
	options, names := p.options("Lft", "c")
	for _, name := range names {
		if has(options, 'f') {
			p.statFS(name, options['c'])
			continue
		}
		e, err := p.entryOf(name, name)
		if err == nil && has(options, 'L') {
			if e.here, err = p.s.stat(name, true); err == nil {
				e.size, err = p.s.sizeOf(name, true)
			}
		}
		if err != nil {
			p.errorf("can't stat '%s': %s", name, errorText(err))
			continue
		}
		format, ok := options['c']
		if !ok {
			format = "  File: %n\n  Size: %s\tBlocks: %b\tIO Block: 4096\t%F\nAccess: (%04a/%A)  Uid: (%u/%U)   Gid: (%g/%G)"
		}
		p.print(expandStat(format, e) + "\n")
	}
	return p.code
}

// expandStat fills a format of stat -c.
func expandStat(format string, e entry) string {
	mode := e.here.info.Mode
	kind := "regular file"
	switch {
	case mode.IsDir():
		kind = "directory"
	case mode&fs.ModeSymlink != 0:
		kind = "symbolic link"
	case mode&fs.ModeCharDevice != 0:
		kind = "character special file"
	case mode&fs.ModeDevice != 0:
		kind = "block special file"
	case e.size == 0:
		kind = "regular empty file"
	}
	return strings.NewReplacer(
		"%%", "%", "%n", e.name, "%s", strconv.FormatInt(e.size, 10), "%a", strconv.FormatUint(modeBits(mode), 8),
		"%04a", fmt.Sprintf("%04o", modeBits(mode)), "%A", modeText(mode), "%u", strconv.Itoa(e.here.info.UID),
		"%g", strconv.Itoa(e.here.info.GID), "%U", userName(e.here.info.UID), "%G", groupName(e.here.info.GID),
		"%F", kind, "%b", strconv.FormatInt((e.size+511)/512, 10), "%B", "512", "%h", "1", "%i", "1", "%o", "4096",
		"%N", "'"+e.name+"'", "%Y", "0", "%X", "0", "%Z", "0",
	).Replace(format)
}

// A usage is the space of a file system.
type usage struct {
	source, fsType, path string
	size, used           int64
}

// usageOf returns the space of the file system that has a path.
func (p *proc) usageOf(name string) (u usage, err error) {
	c := p.s.view()
	err = p.s.at("statfs", name, true, func(disk nodefs.FS, here place) error {
		if !here.exists {
			return fs.ErrNotExist
		}
		u = usage{source: "overlay", fsType: "overlay", path: "/"}
		at := c.root
		if mount := c.mountOf(here.path); mount != "" {
			for _, m := range c.spec.Mounts {
				if m.Path == mount {
					at = m.Source
				}
			}
			u.source, u.fsType = c.mountSource(at)
			u.path = mount
		}
		if u.size, err = disk.Capacity(at); err != nil {
			return err
		}
		u.used = treeSize(disk, at)
		return nil
	})
	return u, err
}

// treeSize returns the bytes of all files at a path of the node.
func treeSize(disk nodefs.FS, at string) int64 {
	info, err := disk.Stat(at)
	switch {
	case err != nil:
		return 0
	case info.Mode.IsRegular():
		data, _ := disk.ReadFile(at)
		return int64(len(data))
	case !info.Mode.IsDir():
		return 0
	}
	names, _ := disk.ReadDir(at)
	var size int64
	for _, name := range names {
		size += treeSize(disk, at+"/"+name)
	}
	return size
}

func (p *proc) statFS(name, format string) {
	u, err := p.usageOf(name)
	if err != nil {
		p.errorf("can't read file system information for '%s': %s", name, errorText(err))
		return
	}
	const block = 4096
	if format == "" {
		format = "  File: \"%n\"\n    Type: %T\nBlock size: %s\nBlocks: Total: %b      Free: %f      Available: %a"
	}
	free := strconv.FormatInt((u.size-u.used)/block, 10)
	p.print(strings.NewReplacer("%n", name, "%T", u.fsType, "%s", "4096", "%S", "4096",
		"%b", strconv.FormatInt(u.size/block, 10), "%f", free, "%a", free).Replace(format) + "\n")
}

func toolDf(p *proc) int {
	options, names := p.options("hkmPaiT", "B")
	unit, title := int64(1024), "1K-blocks"
	if has(options, 'm') {
		unit, title = 1<<20, "1M-blocks"
	}
	if has(options, 'h') {
		title = "Size"
	}
	if len(names) == 0 {
		names = []string{"/"}
		for _, m := range p.s.view().spec.Mounts {
			names = append(names, m.Path)
		}
	}
	show := func(n int64) string {
		if has(options, 'h') {
			return human(n)
		}
		return strconv.FormatInt(n/unit, 10)
	}
	p.printf("%-20s %9s %9s %9s %4s %s\n", "Filesystem", title, "Used", "Available", "Use%", "Mounted on")
	for _, name := range names {
		u, err := p.usageOf(name)
		if err != nil {
			p.errorf("%s: %s", name, errorText(err))
			continue
		}
		percent := int64(0)
		if u.size > 0 {
			percent = (100*u.used + u.size - 1) / u.size
		}
		p.printf("%-20s %9s %9s %9s %3d%% %s\n", u.source, show(u.size), show(u.used), show(u.size-u.used), percent, u.path)
	}
	return p.code
}

func toolMount(p *proc) int {
	if len(p.args) > 0 {
		return p.fail("permission denied (are you root?)")
	}
	var table string
	err := p.s.t.access("read", "/proc/mounts", func() error { table = p.s.view().mountTable(); return nil })
	p.report("/proc/mounts", err)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		p.printf("%s on %s type %s (%s)\n", f[0], f[1], f[2], f[3])
	}
	return p.code
}

func toolMountpoint(p *proc) int {
	options, names := p.options("qdn", "")
	if len(names) != 1 {
		return p.fail("missing operand")
	}
	here, err := p.s.stat(names[0], true)
	if err != nil {
		p.errorf("%s: %s", names[0], errorText(err))
		return 1
	}
	text := " is not a mountpoint"
	if here.top {
		text = " is a mountpoint"
	}
	if !has(options, 'q') {
		p.print(names[0] + text + "\n")
	}
	return oneIf(!here.top)
}

// toolSync has no effect: what was written is on the disk.
func toolSync(p *proc) int {
	_, names := p.options("df", "")
	if len(names) == 0 {
		p.report("sync", p.s.t.access("sync", "/", func() error { return nil }))
	}
	for _, name := range names {
		err := p.s.at("sync", name, true, func(_ nodefs.FS, here place) error {
			if !here.exists {
				return fs.ErrNotExist
			}
			return nil
		})
		if err != nil {
			p.errorf("can't open '%s': %s", name, errorText(err))
		}
	}
	return p.code
}

// walkTree calls f for a path, and with recursive for all below it. It follows no link below the top.
func (p *proc) walkTree(name string, recursive bool, f func(name string, here place)) {
	here, err := p.s.stat(name, !recursive)
	if err != nil {
		p.errorf("%s: %s", name, errorText(err))
		return
	}
	f(name, here)
	if recursive && here.isDir() {
		names, err := p.s.readDir(name)
		p.report(name, err)
		for _, each := range names {
			p.walkTree(strings.TrimSuffix(name, "/")+"/"+each, true, f)
		}
	}
}

func toolChmod(p *proc) int {
	var recursive bool
	args := p.args
	for len(args) > 0 && (args[0] == "-R" || args[0] == "-v" || args[0] == "-f") {
		recursive = recursive || args[0] == "-R"
		args = args[1:]
	}
	if len(args) < 2 {
		return p.fail("missing operand")
	}
	for _, name := range args[1:] {
		p.walkTree(name, recursive, func(name string, here place) {
			if here.isLink() {
				return
			}
			mode, ok := changedMode(args[0], here.info.Mode, p.s.umask)
			if !ok {
				p.fail("invalid mode '%s'", args[0])
			}
			p.report(name, p.s.change("chmod", name, true, func(disk nodefs.FS, here place) error {
				return disk.Chmod(here.node, mode)
			}))
		})
	}
	return p.code
}

// changedMode applies a mode of chmod, such as 0644 or u+x,go-w.
func changedMode(text string, mode, umask fs.FileMode) (fs.FileMode, bool) {
	if bits, err := strconv.ParseUint(text, 8, 12); err == nil {
		return fileMode(bits), true
	}
	bits := modeBits(mode)
	for clause := range strings.SplitSeq(text, ",") {
		at := strings.IndexAny(clause, "+-=")
		if at < 0 {
			return 0, false
		}
		var classes, value uint64
		for _, class := range clause[:at] {
			switch class {
			case 'u':
				classes |= 0o4700
			case 'g':
				classes |= 0o2070
			case 'o':
				classes |= 0o1007
			case 'a':
				classes |= 0o7777
			default:
				return 0, false
			}
		}
		if at == 0 {
			classes = 0o7777 &^ uint64(umask)
		}
		for _, letter := range clause[at+1:] {
			switch letter {
			case 'r':
				value |= 0o444
			case 'w':
				value |= 0o222
			case 'x':
				value |= 0o111
			case 'X':
				if mode.IsDir() || bits&0o111 != 0 {
					value |= 0o111
				}
			case 's':
				value |= 0o6000
			case 't':
				value |= 0o1000
				classes |= 0o1000
			default:
				return 0, false
			}
		}
		value &= classes
		switch clause[at] {
		case '+':
			bits |= value
		case '-':
			bits &^= value
		default:
			bits = bits&^(classes&0o777) | value
		}
	}
	return fileMode(bits), true
}

func toolChown(p *proc) int {
	options, args := p.options("Rhvf", "")
	if len(args) < 2 {
		return p.fail("missing operand")
	}
	user, group, _ := strings.Cut(strings.Replace(args[0], ".", ":", 1), ":")
	if p.name == "chgrp" {
		user, group = "", args[0]
	}
	uid, gid := p.identity(user, "root", "nobody"), p.identity(group, "root", "nogroup")
	for _, name := range args[1:] {
		p.walkTree(name, has(options, 'R'), func(name string, here place) {
			p.report(name, p.s.change("chown", name, !here.isLink(), func(disk nodefs.FS, here place) error {
				return disk.Chown(here.node, uid, gid)
			}))
		})
	}
	return p.code
}

// identity returns the number of a user or group; -1 for none.
func (p *proc) identity(text, root, other string) int {
	switch text {
	case "":
		return -1
	case root:
		return 0
	case other:
		return 65534
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		p.fail("unknown user %s", text)
	}
	return n
}

func toolTruncate(p *proc) int {
	options, names := p.options("c", "s")
	text := options['s']
	size, err := count(strings.TrimLeft(text, "+-"))
	if err != nil || text == "" {
		return p.fail("invalid number '%s'", text)
	}
	for _, name := range names {
		if !has(options, 'c') {
			h, err := p.s.open(name, openFlags{write: true, create: true})
			if err != nil {
				p.errorf("%s: open: %s", name, errorText(err))
				continue
			}
			h.refs++
			h.release(p.s.t)
		}
		err := p.s.change("truncate", name, true, func(disk nodefs.FS, here place) error {
			old, err := disk.ReadFile(here.node)
			if err != nil {
				return err
			}
			want := size
			switch text[0] {
			case '+':
				want = int64(len(old)) + size
			case '-':
				want = max(0, int64(len(old))-size)
			}
			if len(old) == 0 {
				return errors.Join(disk.WriteZeros(here.node, want), keepAttributes(disk, here.node, here.info))
			}
			if want > int64(len(old)) {
				old = append(old, make([]byte, want-int64(len(old)))...)
			}
			return rewrite(disk, here.node, old[:want], here.info)
		})
		p.report(name, err)
	}
	return p.code
}
