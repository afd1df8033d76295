//go:build amd64 || arm64

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/kubelet/container"
)

// Exit codes of commands that cannot be executed, and of those that were killed.
//
// Upstream: containerd's StartError (v2).
const (
	exitCannotStart   = 128
	exitNotExecutable = 126
	exitNotFound      = 127
	exitKilled        = 137
)

// An instance is a run of a container.
type instance struct {
	runtime *Runtime
	spec    container.Spec
	group   string // name of its cgroups
	log     *container.Output
	ready   chan struct{} // closed when process 1 runs, or never will
	gone    chan struct{} // closed when nothing of the run is left but its log

	deadline time.Time // of the grace; zero: not stopped. Only tasks of the process use it

	state   container.State // guarded by Runtime.mu
	init    *child          // process 1; guarded by Runtime.mu; nil before it is started
	killed  bool            // guarded by Runtime.mu: KILL was requested
	stopped bool            // guarded by Runtime.mu: TERM was requested
}

func newInstance(r *Runtime, spec container.Spec, group string) *instance {
	return &instance{
		runtime: r, spec: spec, group: group, log: container.NewOutput(r.cfg.LogBytes),
		ready: make(chan struct{}), gone: make(chan struct{}),
		state: container.State{Started: true, StartedAt: r.cfg.Process.Now()},
	}
}

// name returns the name of a run, such as UID/CONTAINER/0.
func (c *instance) name() string {
	return fmt.Sprintf("%s/%s/%d", c.spec.Pod, c.spec.Container, c.spec.Restarts)
}

// run runs process 1 until nothing of the run is left.
func (c *instance) run() {
	defer c.runtime.working.Done()
	code, message := c.execute()
	c.log.Close()
	c.runtime.mu.Lock()
	c.state.Exited, c.state.Code, c.state.FinishedAt = true, int32(code), c.runtime.cfg.Process.Now() //nolint:gosec // at most 255
	c.state.Message = message
	delete(c.runtime.all, c)
	c.runtime.mu.Unlock()
	close(c.gone)
	c.runtime.changed(c.spec.Pod)
	c.runtime.notify()
}

// execute starts process 1 and waits for its end.
func (c *instance) execute() (code int, message string) {
	defer func() {
		select {
		case <-c.ready:
		default:
			close(c.ready)
		}
	}()
	if c.isKilled() {
		return exitKilled, ""
	}
	if err := c.runtime.groups.add(c.group, c.spec.Memory); err != nil {
		return exitCannotStart, err.Error()
	}
	defer func() { _ = c.runtime.groups.remove(c.group) }() // what is left is removed by the next program
	out, err := newPipes(c.log, c.runtime.cfg.Process.Now)
	if err != nil {
		return exitCannotStart, err.Error()
	}
	err = out.own(c.spec.User, c.spec.Group)
	var init *child
	if err == nil {
		init, err = c.start(out)
	}
	out.start()
	if err != nil {
		out.finish()
		return exitCannotStart, err.Error()
	}
	c.setInit(init)
	close(c.ready)
	<-init.done
	out.finish()
	if c.isIdle() && c.wasStopped() {
		return 0, ""
	}
	return init.code, ""
}

// start starts process 1.
func (c *instance) start(out *pumps) (*child, error) {
	sees, err := c.runtime.openRoot(&c.spec)
	if err != nil {
		return nil, err
	}
	defer sees.close()
	return launch{
		enter: func() (command, error) { return sees.enterNew([3]*os.File{nil, out.stdout(), out.stderr()}) },
		confine: func(p *child) error {
			if err := c.confine(p); err != nil {
				return err
			}
			return c.runtime.template.mountProc(p.fd, c.spec.Privileged)
		},
		first: true, limited: !c.spec.Privileged, machine: c.runtime.template.machine,
	}.start()
}

// maxOOMScore makes the kernel end the processes of runs first when the machine has no memory left.
const maxOOMScore = "1000"

// confine limits what a stopped process of the run may use.
func (c *instance) confine(p *child) error {
	// The machine would handle its core. EPERM: it has another user, and this program lacks CAP_SYS_RESOURCE.
	if err := unix.Prlimit(p.pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil && err != unix.EPERM {
		return fmt.Errorf("limit core files: %w", err)
	}
	if err := writeControl(fmt.Sprintf("/proc/%d/oom_score_adj", p.pid), maxOOMScore); err != nil {
		return err
	}
	return c.runtime.groups.enter(c.group, p.pid)
}

// setInit publishes process 1, and sends it what was requested before.
func (c *instance) setInit(init *child) {
	c.runtime.mu.Lock()
	c.init = init
	killed, stopped := c.killed, c.stopped
	c.runtime.mu.Unlock()
	switch {
	case killed || stopped && c.isIdle():
		init.signal(unix.SIGKILL, false)
	case stopped:
		init.signal(unix.SIGTERM, false)
	}
}

// isIdle reports whether the run has no command: it waits for TERM.
func (c *instance) isIdle() bool { return len(c.spec.Args) == 0 }

func (c *instance) isKilled() bool {
	c.runtime.mu.Lock()
	defer c.runtime.mu.Unlock()
	return c.killed
}

func (c *instance) wasStopped() bool {
	c.runtime.mu.Lock()
	defer c.runtime.mu.Unlock()
	return c.stopped
}

func (c *instance) hasEnded() bool {
	c.runtime.mu.Lock()
	defer c.runtime.mu.Unlock()
	return c.state.Exited
}

// kill ends all processes of the run.
func (c *instance) kill() {
	c.runtime.mu.Lock()
	c.killed = true
	init := c.init
	c.runtime.mu.Unlock()
	if init != nil {
		init.signal(unix.SIGKILL, false)
	}
}

// terminate asks process 1 to end.
func (c *instance) terminate() {
	c.runtime.mu.Lock()
	c.stopped = true
	init := c.init
	c.runtime.mu.Unlock()
	switch {
	case init == nil:
	case c.isIdle():
		init.signal(unix.SIGKILL, false)
	default:
		init.signal(unix.SIGTERM, false)
	}
}

// stop sends TERM to process 1, and KILL after the grace. It runs in the process.
func (c *instance) stop(grace time.Duration) {
	if c.hasEnded() {
		return
	}
	p := c.runtime.cfg.Process
	deadline := p.Now().Add(grace)
	first := c.deadline.IsZero()
	if first || deadline.Before(c.deadline) {
		c.deadline = deadline
	}
	c.terminate()
	if first {
		p.Spawn(c.name()+"/grace", func(context.Context) { c.awaitGrace() })
	}
}

// awaitGrace kills the run when its grace is over.
func (c *instance) awaitGrace() {
	p := c.runtime.cfg.Process
	for !c.hasEnded() {
		deadline := c.deadline
		left := deadline.Sub(p.Now())
		if left <= 0 {
			c.kill()
			return
		}
		p.Wait("grace of "+c.name(), left, func() bool { return c.hasEnded() || c.deadline.Before(deadline) })
	}
}

// exitCode returns the exit code for a command that cannot be executed.
func exitCode(err error) int {
	if errors.Is(err, unix.ENOENT) {
		return exitNotFound
	}
	return exitNotExecutable
}
