package shell

import (
	"path"
	"strings"
	"syscall"

	"github.com/volsim/volsim/kubelet/container"
)

// kubeletDir is where the node's own programs see the directory of its kubelet.
const kubeletDir = "/var/lib/kubelet"

// toolNsenter executes a program that sees the files of the node, if the container is privileged: the mount namespace of
// the node's process 1. Other namespaces are the container's.
func toolNsenter(p *proc) int {
	args := p.args
	mounts := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, _, _ := strings.Cut(args[0], "=")
		args = args[1:]
		switch {
		case name == "--":
		case name == "-m" || name == "--mount" || strings.HasPrefix(name, "-m/"):
			mounts = true
			continue
		case name == "-t" || name == "--target":
			if len(args) > 0 && !strings.Contains(p.args[len(p.args)-len(args)-1], "=") {
				args = args[1:]
			}
			continue
		default:
			continue
		}
		break
	}
	switch {
	case !p.s.t.c.spec.Privileged:
		return p.fail("can't open '/proc/1/ns/mnt': %s", errorText(syscall.EACCES))
	case len(args) == 0:
		args = []string{"sh"}
	}
	sub := p.s.fork(p.s.t)
	sub.transparent = p.s.transparent
	if mounts {
		sub.node = p.s.t.c.onNode()
	}
	return sub.runToEnd(func(sub *shell) int {
		prog, err := sub.findProgram(args[0])
		if err != nil {
			p.errorf("can't execute '%s': %s", args[0], errorText(err))
			return 127
		}
		return sub.execute(prog, args)
	})
}

// onNode returns a container that is not one: the node, as its own processes see its files.
func (c *instance) onNode() *instance {
	root := path.Dir(c.runtime.cfg.Root)
	view := newInstance(c.runtime, container.Spec{
		Run: c.spec.Run, Hostname: c.spec.Hostname, Privileged: true,
		Mounts: []container.Mount{{Path: kubeletDir, Source: root}},
	})
	view.root, view.node = root, true
	return view
}
