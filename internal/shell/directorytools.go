package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/volsim/volsim/plugins/nodefs"
)

// directoryTools change directories.
var directoryTools = map[string]func(p *proc) int{
	"ls": toolLs, "mkdir": toolMkdir, "rmdir": toolRmdir, "rm": toolRm, "touch": toolTouch, "mv": toolMv, "cp": toolCp,
	"ln": toolLn, "readlink": toolReadlink, "realpath": toolReadlink, "mktemp": toolMktemp,
	"find": toolFind, "du": toolDu, "tar": toolTar,
}

func toolMkdir(p *proc) int {
	options, names := p.options("pv", "m")
	mode, umask := fs.FileMode(0o777), p.s.umask
	if text, ok := options['m']; ok {
		bits, err := strconv.ParseUint(text, 8, 12)
		if err != nil {
			return p.fail("invalid mode '%s'", text)
		}
		mode = fileMode(bits)
	}
	for _, name := range names {
		var err error
		if has(options, 'p') {
			err = p.s.mkdirAll(name, mode)
		} else {
			if has(options, 'm') {
				p.s.umask = 0
			}
			err = p.s.mkdir(name, mode, false)
			p.s.umask = umask
		}
		if err != nil {
			p.errorf("can't create directory '%s': %s", name, errorText(err))
		}
	}
	return p.code
}

func toolRmdir(p *proc) int {
	options, names := p.options("p", "")
	for _, name := range names {
		for {
			if err := p.s.unlink(name, true); err != nil {
				p.errorf("'%s': %s", name, errorText(err))
				break
			}
			if name = path.Dir(name); !has(options, 'p') || name == "." || name == "/" {
				break
			}
		}
	}
	return p.code
}

func toolRm(p *proc) int {
	options, names := p.options("rRfiv", "")
	recursive, force := has(options, 'r') || has(options, 'R'), has(options, 'f')
	for _, name := range names {
		if base := path.Base(name); base == "." || base == ".." {
			p.errorf("can't remove '.' or '..'")
			continue
		}
		p.remove(name, recursive, force)
	}
	return p.code
}

// remove removes an entry, with its content if recursive is set.
func (p *proc) remove(name string, recursive, force bool) {
	here, err := p.s.stat(name, false)
	switch {
	case errors.Is(err, fs.ErrNotExist) && force:
		return
	case err != nil:
	case here.isDir() && !recursive:
		err = syscall.EISDIR
	case here.isDir():
		names, err := p.s.readDir(name)
		p.report(name, err)
		for _, each := range names {
			p.remove(strings.TrimSuffix(name, "/")+"/"+each, recursive, force)
		}
	}
	if err == nil {
		err = p.s.unlink(name, here.isDir())
	}
	switch {
	case errors.Is(err, syscall.EISDIR):
		p.errorf("'%s' is a directory", name)
	case err != nil:
		p.errorf("can't remove '%s': %s", name, errorText(err))
	}
}

func toolTouch(p *proc) int {
	options, names := p.options("cam", "drt")
	for _, name := range names {
		if has(options, 'c') {
			continue
		}
		h, err := p.s.open(name, openFlags{create: true})
		if errors.Is(err, syscall.EISDIR) {
			continue
		}
		if err != nil {
			p.errorf("%s: %s", name, errorText(err))
			continue
		}
		h.refs++
		h.release(p.s.t)
	}
	return p.code
}

// destinations returns the sources of an operation and their targets. The last argument may be a directory.
func (p *proc) destinations(names []string, noDirectory bool) (sources, targets []string) {
	if len(names) < 2 {
		p.warn(p.name + ": missing file operand")
		panic(exit{1})
	}
	last := names[len(names)-1]
	sources = names[:len(names)-1]
	here, err := p.s.stat(last, true)
	isDir := err == nil && here.isDir() && !noDirectory
	if len(sources) > 1 && !isDir {
		p.fail("can't stat '%s': %s", last, errorText(syscall.ENOTDIR))
	}
	for _, source := range sources {
		target := last
		if isDir {
			target = strings.TrimSuffix(last, "/") + "/" + path.Base(source)
		}
		targets = append(targets, target)
	}
	return sources, targets
}

func toolMv(p *proc) int {
	options, names := p.options("finT", "")
	sources, targets := p.destinations(names, has(options, 'T'))
	for i, source := range sources {
		if _, err := p.s.stat(targets[i], false); err == nil && has(options, 'n') {
			continue
		}
		err := p.s.rename(source, targets[i])
		if errors.Is(err, syscall.EXDEV) {
			if p.copyTree(source, targets[i], copyOptions{recursive: true, preserve: true, links: true}) {
				p.remove(source, true, false)
			}
			continue
		}
		if err != nil {
			p.errorf("can't rename '%s': %s", source, errorText(err))
		}
	}
	return p.code
}

type copyOptions struct{ recursive, preserve, links, force, noClobber bool }

func toolCp(p *proc) int {
	options, names := p.options("rRapdfLPTnvi", "")
	all := has(options, 'a')
	o := copyOptions{
		recursive: all || has(options, 'r') || has(options, 'R'),
		preserve:  all || has(options, 'p'), force: has(options, 'f'),
		noClobber: has(options, 'n'),
	}
	o.links = (o.recursive || has(options, 'd') || has(options, 'P')) && !has(options, 'L')
	sources, targets := p.destinations(names, has(options, 'T'))
	for i, source := range sources {
		p.copyTree(source, targets[i], o)
	}
	return p.code
}

// copyTree copies an entry, and reports whether all of it was copied.
func (p *proc) copyTree(source, target string, o copyOptions) bool {
	s := p.s
	here, err := s.stat(source, !o.links)
	if err != nil {
		p.errorf("can't stat '%s': %s", source, errorText(err))
		return false
	}
	ok := true
	switch {
	case here.isDir() && !o.recursive:
		p.errorf("omitting directory '%s'", source)
		return false
	case here.isDir():
		if at, err := s.stat(target, true); err != nil || !at.isDir() {
			if err := s.mkdir(target, 0o777&here.info.Mode.Perm()|0o700, false); err != nil {
				p.errorf("can't create directory '%s': %s", target, errorText(err))
				return false
			}
		}
		names, err := s.readDir(source)
		ok = p.report(source, err)
		for _, name := range names {
			ok = p.copyTree(source+"/"+name, target+"/"+name, o) && ok
		}
	case here.isLink():
		link, err := s.readlink(source)
		if err == nil {
			_ = s.unlink(target, false)
			err = s.symlink(link, target)
		}
		if err != nil {
			p.errorf("can't create symlink '%s' to '%s': %s", target, link, errorText(err))
			return false
		}
		return true
	default:
		if _, err := s.stat(target, true); err == nil && o.noClobber {
			return true
		}
		data, err := s.readFile(source)
		if err != nil {
			p.errorf("can't open '%s': %s", source, errorText(err))
			return false
		}
		if err := s.writeFile(target, data, here.info.Mode.Perm()); err != nil {
			p.errorf("can't create '%s': %s", target, errorText(err))
			return false
		}
	}
	if o.preserve {
		err := s.change("chmod", target, true, func(disk nodefs.FS, to place) error {
			return errors.Join(disk.Chown(to.node, here.info.UID, here.info.GID), disk.Chmod(to.node, here.info.Mode))
		})
		ok = p.report(target, err) && ok
	}
	return ok
}

func toolLn(p *proc) int {
	options, names := p.options("sfnTv", "")
	if len(names) == 1 {
		names = append(names, path.Base(names[0]))
	}
	noDirectory := has(options, 'T')
	if has(options, 'n') && len(names) > 0 {
		here, err := p.s.stat(names[len(names)-1], false)
		noDirectory = noDirectory || err == nil && here.isLink()
	}
	sources, targets := p.destinations(names, noDirectory)
	for i, source := range sources {
		if !has(options, 's') {
			p.errorf("%s: %s", targets[i], errorText(errNotSupported))
			continue
		}
		if has(options, 'f') {
			_ = p.s.unlink(targets[i], false)
		}
		if err := p.s.symlink(source, targets[i]); err != nil {
			p.errorf("%s: %s", targets[i], errorText(err))
		}
	}
	return p.code
}

func toolReadlink(p *proc) int {
	options, names := p.options("fnem", "")
	for _, name := range names {
		if p.name == "readlink" && !has(options, 'f') && !has(options, 'e') && !has(options, 'm') {
			target, err := p.s.readlink(name)
			if err != nil {
				p.code = 1
				continue
			}
			p.print(target)
		} else {
			var here place
			err := p.s.at("readlink", name, true, func(_ nodefs.FS, at place) error { here = at; return nil })
			if err != nil || !here.exists && (p.name == "realpath" || has(options, 'e')) {
				if p.name == "realpath" {
					p.errorf("%s: %s", name, errorText(fs.ErrNotExist))
				}
				p.code = 1
				continue
			}
			p.print(here.path)
		}
		if !has(options, 'n') {
			p.print("\n")
		}
	}
	return p.code
}

func toolMktemp(p *proc) int {
	options, names := p.options("dqut", "p")
	template := "tmp.XXXXXX"
	dir := "/tmp"
	if len(names) > 0 {
		template, dir = names[0], ""
		if has(options, 't') {
			dir = "/tmp"
		}
	}
	if text, ok := options['p']; ok {
		dir = text
	}
	stem := strings.TrimRight(template, "X")
	name := stem
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for range len(template) - len(stem) {
		name += string(letters[p.s.t.c.random.next()%uint64(len(letters))])
	}
	if dir != "" {
		name = dir + "/" + name
	}
	var err error
	if has(options, 'd') {
		err = p.s.mkdir(name, 0o700, false)
	} else {
		umask := p.s.umask
		p.s.umask = 0o077
		err = p.s.writeFile(name, nil, 0o600)
		p.s.umask = umask
	}
	if err != nil {
		return p.fail("%s", fmt.Sprintf("%s: %s", name, errorText(err)))
	}
	p.print(name + "\n")
	return 0
}
