package shell

import (
	"fmt"

	"github.com/volsim/volsim/kubelet/container"
)

// Exit codes of commands that cannot be executed.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitKilled        = 137
)

// An execution is a command that is executed in a container.
type execution struct {
	runtime *Runtime
	output  *container.Output
	done    chan struct{}
	code    int32  // set before done is closed
	ended   func() // see container.Streams; nil: nothing is called
}

// Exec implements container.Runtime.
func (r *Runtime) Exec(run container.Run, args []string, streams container.Streams) (*container.Execution, error) {
	r.mu.Lock()
	c := r.find(run)
	if c == nil || c.state.Exited || r.down || len(args) == 0 {
		r.mu.Unlock()
		return nil, fmt.Errorf("container %q: %w", run.Container, container.ErrNotRunning)
	}
	e := &execution{runtime: r, output: streams.Output, done: make(chan struct{}), ended: streams.Ended}
	if e.output == nil {
		e.output = container.NewOutput(1)
	}
	r.execs[e] = struct{}{}
	r.mu.Unlock()
	e.output.Wake(func() { r.request(c.notify) })
	if streams.Stdin != nil {
		streams.Stdin.Wake(func() { r.request(c.notify) })
	}
	var started *task
	r.request(func() { started = c.exec(e, args, streams) })
	return &container.Execution{
		Done: e.done,
		Code: func() int32 { return e.code },
		Kill: func() {
			r.request(func() {
				if started != nil {
					c.killTree(started)
				}
			})
		},
	}, nil
}

// end publishes the exit code.
func (e *execution) end(code int) {
	e.code = int32(code) //nolint:gosec // at most 255
	e.output.Close()
	close(e.done)
	if e.ended != nil {
		e.ended()
	}
}

// finish ends an execution, unless a crash has ended it.
func (r *Runtime) finish(e *execution, code int) {
	r.mu.Lock()
	_, open := r.execs[e]
	delete(r.execs, e)
	r.mu.Unlock()
	if open {
		e.end(code)
	}
}

// exec starts the process of an execution.
func (c *instance) exec(e *execution, args []string, streams container.Streams) *task {
	if c.dead || c.init == nil {
		c.runtime.finish(e, exitKilled)
		return nil
	}
	return c.spawn(nil, func(t *task) int {
		stderr := container.Stderr
		if streams.TTY {
			stderr = container.Stdout
		}
		t.wait("root directory", 0, func() bool { return c.prepared })
		s := newShell(t, "sh")
		s.setEnvironment()
		if streams.Stdin != nil {
			s.fds.set(0, &handle{stream: &inputStream{streams.Stdin}})
		} else {
			s.fds.set(0, &handle{stream: nullStream{}})
		}
		s.fds.set(1, &handle{stream: &outputStream{e.output, container.Stdout}})
		s.fds.set(2, &handle{stream: &outputStream{e.output, stderr}})
		return s.runToEnd(func(s *shell) int {
			if err := s.enterWorkingDir(c.spec.WorkingDir); err != nil {
				s.writeTo(2, "OCI runtime exec failed: exec failed: "+err.Error()+"\n")
				return exitNotExecutable
			}
			prog, err := s.findProgram(args[0])
			if err != nil {
				s.writeTo(2, "OCI runtime exec failed: exec failed: unable to start container process: "+
					startError(args[0], err)+"\n")
				return exitNotFound
			}
			return s.execute(prog, args)
		})
	}, func(code int) { c.runtime.finish(e, code) })
}

// killTree ends a process and those that it has started.
func (c *instance) killTree(root *task) {
	for _, t := range c.tasks {
		for ancestor := t; ancestor != nil; ancestor = ancestor.parent {
			if ancestor == root {
				t.kill()
				break
			}
		}
	}
}
