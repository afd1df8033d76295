package shell

import (
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/volsim/volsim/plugins/nodefs"
)

// toolAgnhost is the program of Kubernetes' test image agnhost, as far as it tests volumes. Its other subcommands, which
// are servers and clients, wait until they are ended.
//
// Upstream: test/images/agnhost (v1.36).
func toolAgnhost(p *proc) int {
	if len(p.args) == 0 || p.args[0] != "mounttest" {
		return p.s.t.idle()
	}
	p.args = p.args[1:]
	return toolMounttest(p)
}

// The texts and times of mounttest.
const (
	mounttestContent = "mount-tester new file\n"
	mounttestRetry   = 180 // seconds
	mounttestPause   = 2 * time.Second
)

// toolMounttest examines files and directories. Its tests run in a fixed order, whatever that of its flags.
//
// Upstream: test/images/agnhost/mounttest (v1.36).
func toolMounttest(p *proc) int {
	flags := map[string]string{}
	for _, arg := range p.args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		flags[name] = value
	}
	p.s.umask = 0
	m := mounttest{p, flags}
	for _, test := range []struct {
		flag string
		do   func(name string) error
	}{
		{"fs_type", m.fsType},
		{"new_file_0644", m.newFile(0o644)},
		{"new_file_0666", m.newFile(0o666)},
		{"new_file_0660", m.newFile(0o660)},
		{"new_file_0777", m.newFile(0o777)},
		{"file_mode", m.fileMode},
		{"file_perm", m.filePerm},
		{"file_owner", m.fileOwner},
		{"file_content", m.content},
		{"file_content_in_loop", m.contentInLoop},
	} {
		name := flags[test.flag]
		delete(flags, test.flag)
		if name != "" && test.do(name) != nil {
			p.code = 1
		}
	}
	return p.code
}

// A mounttest is one execution of mounttest.
type mounttest struct {
	p     *proc
	flags map[string]string
}

// goText returns the text of an error as Go programs print it.
func goText(operation, name string, err error) string {
	return operation + " " + name + ": " + lowerFirst(errorText(err))
}

func (m mounttest) fsType(name string) error {
	p := m.p
	_, err := p.s.stat(name, true)
	if err != nil {
		p.printf("error from statfs(%q): %s\n", name, lowerFirst(errorText(err)))
		return err
	}
	_, fsType := p.s.view().mountSource(p.s.nodePath(name))
	if fsType != "tmpfs" {
		fsType = "ext4-like" // not a number that the kernel knows by another name
	}
	p.printf("mount type of %q: %s\n", name, fsType)
	return nil
}

func (m mounttest) newFile(perm fs.FileMode) func(name string) error {
	return func(name string) error {
		p := m.p
		if err := p.s.writeFile(name, []byte(mounttestContent), perm); err != nil {
			p.printf("error writing new file %q: %s\n", name, goText("open", name, err))
			return err
		}
		return m.content(name)
	}
}

func (m mounttest) fileMode(name string) error {
	here, err := m.p.s.stat(name, false)
	if err != nil {
		m.p.printf("error from Lstat(%q): %s\n", name, goText("lstat", name, err))
		return err
	}
	m.p.printf("mode of file %q: %v\n", name, here.info.Mode)
	return nil
}

func (m mounttest) filePerm(name string) error {
	here, err := m.p.s.stat(name, true)
	if err != nil {
		m.p.printf("error from Lstat(%q): %s\n", name, goText("lstat", name, err))
		return err
	}
	m.p.printf("perms of file %q: %v\n", name, here.info.Mode.Perm())
	return nil
}

func (m mounttest) fileOwner(name string) error {
	here, err := m.p.s.stat(name, false)
	if err != nil {
		m.p.printf("error from Lstat(%q): %s\n", name, goText("lstat", name, err))
		return err
	}
	m.p.printf("owner UID of %q: %d\nowner GID of %q: %d\n", name, here.info.UID, name, here.info.GID)
	return nil
}

func (m mounttest) content(name string) error {
	data, err := m.p.s.readFile(name)
	if err != nil {
		m.p.printf("error reading file content for %q: %s\n", name, goText("open", name, err))
		return err
	}
	m.p.printf("content of file %q: %s\n", name, data)
	return nil
}

// contentInLoop reads a file again and again until it has the content that a new file gets.
func (m mounttest) contentInLoop(name string) error {
	p := m.p
	seconds, err := strconv.Atoi(m.flags["retry_time"])
	if err != nil {
		seconds = mounttestRetry
	}
	ends := m.flags["break_on_expected_content"] != "false"
	var last error
	for begin := p.s.t.now(); p.s.t.now().Sub(begin) < time.Duration(seconds)*time.Second; {
		data, err := p.s.readFile(name)
		if last = err; err != nil {
			p.printf("Error reading file %s: %s, retrying\n", name, goText("open", name, err))
		} else {
			p.printf("content of file %q: %s\n", name, data)
			if ends && string(data) == mounttestContent {
				return nil
			}
			if ends {
				p.printf("Unexpected content. Expected: %s. Retrying\n", mounttestContent)
			}
		}
		p.mustFlush()
		p.s.t.wait("pause of mounttest", mounttestPause, func() bool { return false })
	}
	return last
}

// nodePath returns the path on the node's disk of an existing path; "" for a virtual one.
func (s *shell) nodePath(name string) (node string) {
	_ = s.at("stat", name, true, func(_ nodefs.FS, here place) error {
		node = here.node
		return nil
	})
	return node
}
