package shell

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/volsim/volsim/plugins/nodefs"
)

// toolTar creates, lists and extracts archives. The files of an archive have no times.
func toolTar(p *proc) int {
	if len(p.args) > 0 && p.args[0] != "" && p.args[0][0] != '-' {
		p.args[0] = "-" + p.args[0]
	}
	var members []string
	options := map[byte]string{}
	for { // options may follow members
		found, rest := p.options("cxtvmpozhO", "fC")
		for letter, value := range found { // any order: keys are unique
			options[letter] = value
		}
		i := 0
		for i < len(rest) && !strings.HasPrefix(rest[i], "-") {
			i++
		}
		members = append(members, rest[:i]...)
		if p.args = rest[i:]; len(p.args) == 0 || p.args[0] == "-" {
			break
		}
	}
	if has(options, 'z') {
		return p.fail("compression is not supported by the simulated tool")
	}
	dir := options['C']
	if dir == "" {
		dir = "."
	}
	file := options['f']
	if file == "" {
		file = "-"
	}
	if has(options, 'c') {
		return p.createArchive(file, dir, members, has(options, 'v'))
	}
	p.withInput(file, func(r io.Reader) error {
		archive := tar.NewReader(r)
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				p.errorf("invalid tar magic")
				return nil
			}
			if has(options, 'v') || has(options, 't') {
				p.print(header.Name + "\n")
			}
			if has(options, 'x') && (len(members) == 0 || isMember(members, header.Name)) {
				p.extract(dir, header, archive)
			}
		}
	})
	return p.code
}

// isMember reports whether a name is one of the members or in one.
func isMember(members []string, name string) bool {
	for _, m := range members {
		if _, ok := below(strings.TrimSuffix(m, "/"), strings.TrimSuffix(name, "/")); ok {
			return true
		}
	}
	return false
}

// createArchive writes an archive.
func (p *proc) createArchive(file, dir string, members []string, verbose bool) int {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, member := range members {
		p.addToArchive(w, dir, member, verbose && file != "-")
	}
	if err := w.Close(); err != nil {
		return p.fail("%s", err)
	}
	if file == "-" {
		p.print(b.String())
	} else if err := p.s.writeFile(file, b.Bytes(), 0o666); err != nil {
		return p.fail("can't open '%s': %s", file, errorText(err))
	}
	return p.code
}

// addToArchive adds an entry and all below it.
func (p *proc) addToArchive(w *tar.Writer, dir, name string, verbose bool) {
	at := name
	if !path.IsAbs(name) {
		at = dir + "/" + name
	}
	e, err := p.entryOf(at, name)
	if err != nil {
		p.errorf("%s: %s", name, errorText(err))
		return
	}
	info := e.here.info
	header := &tar.Header{
		Name: strings.TrimLeft(name, "/"), Mode: int64(modeBits(info.Mode)), //nolint:gosec // 12 bits
		Uid: info.UID, Gid: info.GID, Format: tar.FormatGNU,
	}
	var data []byte
	switch {
	case e.here.isDir():
		header.Typeflag, header.Name = tar.TypeDir, strings.TrimSuffix(header.Name, "/")+"/"
	case e.here.isLink():
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.target
	case e.here.isRegular():
		if data, err = p.s.readFile(at); err != nil {
			p.errorf("can't open '%s': %s", name, errorText(err))
			return
		}
		header.Typeflag, header.Size = tar.TypeReg, int64(len(data))
	default:
		return
	}
	if verbose {
		p.print(name + "\n")
	}
	err = w.WriteHeader(header)
	if err == nil {
		_, err = w.Write(data)
	}
	p.report(name, err)
	if e.here.isDir() {
		names, err := p.s.readDir(at)
		p.report(name, err)
		for _, each := range names {
			p.addToArchive(w, dir, strings.TrimSuffix(name, "/")+"/"+each, verbose)
		}
	}
}

// extract extracts an entry below a directory. It follows no "..".
func (p *proc) extract(dir string, header *tar.Header, content io.Reader) {
	s := p.s
	name := strings.TrimSuffix(dir, "/") + logicalPath("/"+header.Name)
	mode := fileMode(uint64(header.Mode)) //nolint:gosec // 12 bits
	var err error
	switch header.Typeflag {
	case tar.TypeDir:
		err = s.mkdirAll(name, mode)
	case tar.TypeSymlink:
		if err = s.mkdirAll(path.Dir(name), 0o777); err == nil {
			_ = s.unlink(name, false)
			err = s.symlink(header.Linkname, name)
		}
	case tar.TypeReg:
		var data []byte
		if data, err = io.ReadAll(content); err == nil {
			err = s.mkdirAll(path.Dir(name), 0o777)
		}
		if err == nil {
			if here, missing := s.stat(name, false); missing == nil && here.isLink() {
				err = s.unlink(name, false)
			}
		}
		if err == nil {
			err = s.writeFile(name, data, mode)
		}
	default:
		err = errNotSupported
	}
	if err == nil && header.Typeflag != tar.TypeSymlink {
		err = s.change("chmod", name, true, func(disk nodefs.FS, here place) error {
			if here.top || here.info.Mode.Type() != mode.Type() && !here.isDir() {
				return nil
			}
			return disk.Chmod(here.node, mode&^fs.ModeType)
		})
	}
	if err != nil {
		p.errorf("can't extract '%s': %s", header.Name, errorText(err))
	}
}
