//go:build amd64 || arm64

package process

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopback"
	"github.com/volsim/volsim/kubelet/container"
)

// newNamespaces are those that a run has besides that of its processes.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC

// enterNew makes the namespaces of a run and its root directory, and enters them. The result is the run's command.
func (r *root) enterNew(files [3]*os.File) (command, error) {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return command{}, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(r.template.namespace, unix.CLONE_NEWNS); err != nil {
		return command{}, fmt.Errorf("enter the mount namespace of containers: %w", err)
	}
	if err := unix.Unshare(newNamespaces); err != nil {
		return command{}, fmt.Errorf("make namespaces: %w", err)
	}
	unix.Umask(0o022)
	if err := unix.Sethostname([]byte(r.spec.Hostname)); err != nil {
		return command{}, fmt.Errorf("set host name %q: %w", r.spec.Hostname, err)
	}
	if err := loopback.BringUp(); err != nil {
		return command{}, err
	}
	null, err := r.build()
	if err != nil {
		return command{}, err
	}
	cmd, err := commandOf(r.spec, commandArgs(r.spec), files)
	if err != nil {
		unix.Close(null)
		return command{}, err
	}
	cmd.null = null
	return cmd, nil
}

// idleArgs is the command of a run without one.
var idleArgs = []string{"sleep", "inf"}

func commandArgs(spec *container.Spec) []string {
	if len(spec.Args) == 0 {
		return idleArgs
	}
	return spec.Args
}

// enter enters the namespaces of a process that runs. The result is a command that begins as the trusted program. tty
// means that its files are a terminal.
func enter(process int, spec *container.Spec, args []string, tty bool) (command, error) {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return command{}, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(process, newNamespaces|unix.CLONE_NEWPID); err != nil {
		return command{}, fmt.Errorf("enter the namespaces of the container: %w", err)
	}
	unix.Umask(0o022)
	cmd, err := commandOf(spec, args, [3]*os.File{})
	if err != nil {
		return command{}, err
	}
	session := []string{"setsid", "--"}
	if tty {
		session = []string{"setsid", "-c", "--"}
		cmd.env = append(cmd.env, "TERM=xterm")
	}
	cmd.program, cmd.args = trustedProgram, slices.Concat(session, args)
	return cmd, nil
}

// commandOf returns a command of a run, by a thread whose root directory is that of the run. The thread enters
// the working directory.
func commandOf(spec *container.Spec, args []string, files [3]*os.File) (command, error) {
	if err := enterWorkingDir(spec.WorkingDir); err != nil {
		return command{}, err
	}
	env := environment(spec)
	program, err := findProgram(args[0], env)
	if err != nil {
		return command{}, err
	}
	return command{program: program, args: args, env: env, files: files, null: -1, user: credential(spec)}, nil
}

// credential returns the user and the groups of a run; nil: root, as this program.
func credential(spec *container.Spec) *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(spec.User), Gid: uint32(spec.Group)} //nolint:gosec // validated by the API server
	for _, group := range spec.Groups {
		c.Groups = append(c.Groups, uint32(group)) //nolint:gosec // validated by the API server
	}
	return c
}

// home returns the home directory of a user.
func home(user int64) string {
	switch user {
	case 0:
		return "/root"
	case overflowUser:
		return "/home"
	}
	return "/"
}

// overflowUser is the kernel's number for a user that has none, which has a line in passwd.
const overflowUser = 65534

// enterWorkingDir makes the working directory, as a container runtime does.
func enterWorkingDir(name string) error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	dir, err := makeDirectory(root, path.Join("/", name))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Fchdir(dir)
}

// defaultPath is $PATH of a container.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the variables of a run: of equal names the last one.
func environment(spec *container.Spec) []string {
	all := append([]string{"PATH=" + defaultPath, "HOSTNAME=" + spec.Hostname, "HOME=" + home(spec.User)}, spec.Env...)
	if spec.TTY {
		all = append(all, "TERM=xterm")
	}
	place := map[string]int{}
	var env []string
	for _, pair := range all {
		name, _, _ := strings.Cut(pair, "=")
		if i, ok := place[name]; ok {
			env[i] = pair
			continue
		}
		place[name] = len(env)
		env = append(env, pair)
	}
	return env
}

// findProgram returns the path of a command. The thread's root directory is that of the run.
func findProgram(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		var info unix.Stat_t
		if err := unix.Stat(name, &info); err != nil {
			return "", &startError{fmt.Sprintf("exec: %q: stat %s: %s", name, name, err), err}
		}
		if !isExecutable(&info) {
			return "", &startError{fmt.Sprintf("exec: %q: permission denied", name), unix.EACCES}
		}
		return name, nil
	}
	for _, pair := range env {
		list, ok := strings.CutPrefix(pair, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if dir == "" {
				dir = "."
			}
			var info unix.Stat_t
			if full := dir + "/" + name; name != "" && unix.Stat(full, &info) == nil && isExecutable(&info) {
				return full, nil
			}
		}
	}
	return "", &startError{fmt.Sprintf("exec: %q: executable file not found in $PATH", name), unix.ENOENT}
}

func isExecutable(info *unix.Stat_t) bool {
	return info.Mode&unix.S_IFMT == unix.S_IFREG && info.Mode&0o111 != 0
}
