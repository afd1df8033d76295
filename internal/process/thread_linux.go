//go:build amd64 || arm64

package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/kubelet/container"
)

// A launch starts a process from a thread of its own.
type launch struct {
	enter   func() (command, error) // enters the namespaces, in the thread
	confine func(c *child) error    // confines the stopped process, in another thread; it then continues
	first   bool                    // it is process 1 of new namespaces
	limited bool                    // it gives up capabilities
	machine int                     // the mount namespace that the thread enters when the process has ended
}

// A command is what a thread executes in its namespaces.
type command struct {
	program string
	args    []string
	env     []string
	files   [3]*os.File // which must stay open until it is started
	null    int         // stdin if files has none; -1: none
	user    *syscall.Credential
}

// A child is a process that a thread of this program has started.
type child struct {
	pid  int // in the machine
	fd   int // a descriptor that refers to it
	done chan struct{}
	code int // after done: as in a shell, 128 + the number of a signal

	mu    sync.Mutex
	ended bool // guarded by mu: its number may belong to another process
}

// start runs a launch until its process runs.
func (l launch) start() (*child, error) {
	type result struct {
		c   *child
		err error
	}
	started := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		c, err := l.fork()
		started <- result{c, err}
		if err == nil {
			c.wait(l.machine)
		}
	}()
	r := <-started
	return r.c, r.err
}

// fork starts the process, and lets it run when it is confined.
func (l launch) fork() (*child, error) {
	cmd, err := l.enter()
	if err != nil {
		return nil, err
	}
	if cmd.null >= 0 {
		defer unix.Close(cmd.null)
	}
	if l.limited {
		if err := restrict(); err != nil {
			return nil, err
		}
	}
	// Descriptors that this program has inherited are not for the processes of a run.
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close descriptors at exec: %w", err)
	}
	c := &child{fd: -1, done: make(chan struct{})}
	c.pid, err = syscall.ForkExec(cmd.program, cmd.args, l.attributes(cmd, &c.fd))
	runtime.KeepAlive(cmd.files)
	if err != nil {
		return nil, startFailure(cmd.program, err)
	}
	if err := c.awaitExec(); err != nil {
		c.abandon()
		return nil, err
	}
	confined := make(chan error)
	go func() { confined <- l.confine(c) }()
	if err := <-confined; err != nil {
		c.abandon()
		return nil, err
	}
	if err := syscall.PtraceDetach(c.pid); err != nil && err != unix.ESRCH { // ESRCH: it was killed meanwhile
		c.abandon()
		return nil, fmt.Errorf("detach from the process: %w", err)
	}
	return c, nil
}

func (l launch) attributes(cmd command, fd *int) *syscall.ProcAttr {
	attr := &syscall.ProcAttr{Env: cmd.env, Files: make([]uintptr, len(cmd.files)), Sys: &syscall.SysProcAttr{
		Ptrace: true, PidFD: fd, Credential: cmd.user,
	}}
	for i, f := range cmd.files {
		if f == nil {
			attr.Files[i] = uintptr(cmd.null) //nolint:gosec // a descriptor
			continue
		}
		attr.Files[i] = f.Fd()
	}
	if l.first {
		attr.Sys.Cloneflags, attr.Sys.Setsid = unix.CLONE_NEWPID, true
		attr.Sys.Pdeathsig = syscall.SIGKILL // the thread lives as long as the process
	}
	return attr
}

// awaitExec waits until the process has stopped at its exec.
func (c *child) awaitExec() error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(c.pid, &status, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the exec: %w", err)
		}
		break
	}
	if !status.Stopped() || status.StopSignal() != unix.SIGTRAP {
		return fmt.Errorf("process did not stop at its exec: status %#x", uint32(status))
	}
	return nil
}

// abandon kills a process that could not be confined, and waits for its end.
func (c *child) abandon() {
	_ = unix.Kill(c.pid, unix.SIGKILL)
	c.wait(-1)
}

// wait waits for the end of the process. Then the thread enters the machine's mount namespace, so that the
// mounts of the run end, if this was its last process.
func (c *child) wait(machine int) {
	for unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil) == unix.EINTR {
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(c.pid, &status, unix.WALL, nil); err != unix.EINTR {
			break
		}
	}
	if c.code = status.ExitStatus(); status.Signaled() {
		c.code = 128 + int(status.Signal())
	}
	if machine >= 0 {
		_ = unix.Setns(machine, unix.CLONE_NEWNS) // otherwise they end with the thread
	}
	if c.fd >= 0 {
		unix.Close(c.fd)
	}
	close(c.done)
}

// signal sends a signal to the process, or to its session's first process group, too.
func (c *child) signal(s unix.Signal, group bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if group {
		_ = unix.Kill(-c.pid, s) // it has none before the trusted program makes one
	}
	_ = unix.Kill(c.pid, s)
}

// A startError is containerd's text for a command that cannot be executed.
type startError struct {
	text  string
	cause error
}

func (e *startError) Error() string { return e.text }
func (e *startError) Unwrap() error { return e.cause }

// startFailure describes why the kernel did not execute a program.
func startFailure(program string, err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return &startError{fmt.Sprintf("exec %s: %s", program, number.Error()), err}
	}
	return err
}

// enter enters the namespaces of a process that has not ended.
func (c *child) enter(spec *container.Spec, args []string, tty bool) (command, error) {
	process, err := c.reference()
	if err != nil {
		return command{}, err
	}
	defer unix.Close(process)
	return enter(process, spec, args, tty)
}

// reference returns another descriptor of the process.
func (c *child) reference() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return -1, container.ErrNotRunning
	}
	return unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0) //nolint:gosec // a descriptor
}
