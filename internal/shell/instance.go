package shell

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/sim"
)

// An instance is a run of a container. Only tasks of the process use it, except for what Runtime.mu
// guards.
type instance struct {
	runtime *Runtime
	spec    container.Spec
	log     *container.Output
	state   container.State // guarded by Runtime.mu
	root    string          // its root directory, on the node's disk

	changed  sim.Signal // broadcast when something in the container changes
	tasks    []*task    // running ones, by pid
	lastPID  int
	init     *task     // process 1; nil before it is launched
	launched bool      // launch has begun
	prepared bool      // the root directory exists
	dead     bool      // KILL was requested, or process 1 has exited
	gone     bool      // no task will run any more
	deadline time.Time // of the grace; zero: not stopped
	random   *randomStream
	created  time.Time // of the run; files have no times of their own
	node     bool      // it is a node; see onNode
}

func newInstance(r *Runtime, spec container.Spec) *instance {
	c := &instance{
		runtime: r, spec: spec, log: container.NewOutput(r.cfg.LogBytes),
		root:  path.Join(r.cfg.Root, string(spec.Pod), spec.Container),
		state: container.State{Started: true, StartedAt: r.cfg.Process.Now()},
	}
	c.created = c.state.StartedAt
	c.random = newRandomStream(string(spec.Pod) + "/" + spec.Container)
	return c
}

// notify makes the tasks of the container check what they wait for.
func (c *instance) notify() { c.changed.Broadcast() }

// launch starts process 1.
func (c *instance) launch() {
	c.launched = true
	if c.dead {
		c.finish(exitKilled, "")
		return
	}
	c.init = c.spawn(nil, func(t *task) int {
		if err := t.prepareRoot(); err != nil {
			return c.cannotStart(err.Error())
		}
		c.prepared = true
		c.notify()
		if len(c.spec.Args) == 0 {
			return t.idle()
		}
		s := newShell(t, "sh")
		s.setEnvironment()
		s.fds.set(0, &handle{stream: c.stdin()})
		s.fds.set(1, &handle{stream: &outputStream{c.log, container.Stdout}})
		s.fds.set(2, &handle{stream: &outputStream{c.log, container.Stderr}})
		return s.runToEnd(func(s *shell) int {
			if err := s.enterWorkingDir(c.spec.WorkingDir); err != nil {
				return c.cannotStart(err.Error())
			}
			prog, err := s.findProgram(c.spec.Args[0])
			if err != nil {
				return c.cannotStart(startError(c.spec.Args[0], err))
			}
			c.lastPID = 0 // the program is process 1
			return s.execute(prog, c.spec.Args)
		})
	}, func(code int) { c.exited(code) })
	if len(c.spec.Args) == 0 { // from the start, so that an early TERM ends it
		c.init.shell = &shell{t: c.init, traps: map[string]string{"TERM": ":"}}
	}
}

// stdin returns what process 1 reads: what attached clients write, or nothing.
func (c *instance) stdin() stream {
	input := c.spec.Stdin
	if input == nil {
		return nullStream{}
	}
	input.Wake(func() { c.runtime.request(c.notify) })
	return &inputStream{input}
}

// startError returns containerd's text for a command that cannot be executed.
func startError(command string, err error) string {
	if containsSlash(command) {
		return fmt.Sprintf("exec: %q: stat %s: %s", command, command, lowerFirst(errorText(err)))
	}
	return fmt.Sprintf("exec: %q: executable file not found in $PATH", command)
}

// exitCannotStart is the exit code of a run that could not be started.
//
// Upstream: containerd's StartError (v2).
const exitCannotStart = 128

// cannotStart ends a run that cannot be executed.
func (c *instance) cannotStart(message string) int {
	c.runtime.setState(c, func(s *container.State) { s.Message = message })
	return exitCannotStart
}

// exited is called when process 1 has exited: the kernel kills all others.
func (c *instance) exited(code int) {
	c.dead = true
	c.killTasks()
	if len(c.tasks) == 0 {
		c.finish(code, "")
		return
	}
	c.runtime.cfg.Process.Spawn(c.name()+"/exit", func(context.Context) {
		c.runtime.cfg.Process.WaitOn(&c.changed, "end of all processes of "+c.name(), 0,
			func() bool { return len(c.tasks) == 0 })
		c.finish(code, "")
	})
}

// finish publishes the exit code.
func (c *instance) finish(code int, message string) {
	c.gone = true
	c.log.Close()
	c.runtime.setState(c, func(s *container.State) {
		s.Exited, s.Code, s.FinishedAt = true, int32(code), c.runtime.cfg.Process.Now() //nolint:gosec // at most 255
		if message != "" {
			s.Message = message
		}
	})
	c.notify()
}

func (c *instance) ended() bool { return c.gone }

// stop sends TERM to process 1, and KILL after the grace.
func (c *instance) stop(grace time.Duration) {
	if c.gone || c.dead {
		return
	}
	deadline := c.runtime.cfg.Process.Now().Add(grace)
	first := c.deadline.IsZero()
	if first || deadline.Before(c.deadline) {
		c.deadline = deadline
	}
	if c.init == nil { // not launched: the worker handles requests in order, so this is a run without a task
		c.kill()
		return
	}
	c.init.signal("TERM")
	c.notify()
	if first {
		c.runtime.cfg.Process.Spawn(c.name()+"/grace", func(context.Context) { c.awaitGrace() })
	}
}

// awaitGrace kills the run when its grace is over.
func (c *instance) awaitGrace() {
	p := c.runtime.cfg.Process
	for !c.gone && !c.dead {
		deadline := c.deadline
		left := deadline.Sub(p.Now())
		if left <= 0 {
			c.kill()
			return
		}
		p.WaitOn(&c.changed, "grace of "+c.name(), left, func() bool {
			return c.gone || c.dead || c.deadline.Before(deadline)
		})
	}
}

// kill ends all processes of the run.
func (c *instance) kill() {
	if c.gone {
		return
	}
	c.dead = true
	if c.init == nil {
		if !c.launched {
			c.launched = true
			c.finish(exitKilled, "")
		}
		return
	}
	c.killTasks()
}

// killTasks kills all processes of the container.
func (c *instance) killTasks() {
	for _, t := range c.tasks {
		t.kill()
	}
	c.notify()
}
