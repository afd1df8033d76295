//go:build amd64 || arm64

package process

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/kubelet/container"
)

// An execution is a command that is executed in a container.
type execution struct {
	c       *instance
	args    []string
	streams container.Streams
	done    chan struct{}
	code    int // set before done is closed

	mu      sync.Mutex
	process *child // guarded by mu; nil before it is started
	pumps   *pumps // guarded by mu; nil before they exist
	killed  bool   // guarded by mu
}

// Exec implements container.Runtime.
func (r *Runtime) Exec(run container.Run, args []string, streams container.Streams) (*container.Execution, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.find(run)
	if c == nil || c.state.Exited || r.down || len(args) == 0 {
		return nil, fmt.Errorf("container %q: %w", run.Container, container.ErrNotRunning)
	}
	if streams.Output == nil {
		streams.Output = container.NewOutput(1)
	}
	e := &execution{c: c, args: args, streams: streams, done: make(chan struct{})}
	r.working.Add(1)
	go e.run()
	return &container.Execution{Done: e.done, Code: func() int32 { return int32(e.code) }, Kill: e.kill}, nil //nolint:gosec // at most 255
}

// run runs the command until it has ended.
func (e *execution) run() {
	defer e.c.runtime.working.Done()
	<-e.c.ready
	e.code = e.execute()
	e.streams.Output.Close()
	close(e.done)
	if e.streams.Ended != nil {
		e.streams.Ended()
	}
	e.c.runtime.notify()
}

func (e *execution) execute() int {
	e.c.runtime.mu.Lock()
	init := e.c.init
	e.c.runtime.mu.Unlock()
	if init == nil {
		return exitKilled
	}
	open := openPipes
	if e.streams.TTY {
		open = openNothing
	}
	io, err := open(e.streams, e.c.runtime.cfg.Process.Now)
	if err != nil {
		return e.failed(err)
	}
	process, err := e.start(init, io)
	io.started()
	if err != nil {
		io.closeInput()
		io.ended()
		return e.failed(err)
	}
	e.mu.Lock()
	e.process, e.pumps = process, io.pumps
	killed := e.killed
	e.mu.Unlock()
	if killed {
		e.kill()
	}
	if e.streams.Stdin != nil {
		go io.feed(e.streams.Stdin, process.done)
	}
	<-process.done
	io.ended()
	return process.code
}

// start starts the process in the namespaces of process 1.
func (e *execution) start(init *child, io *streams) (*child, error) {
	c := e.c
	return launch{
		enter: func() (command, error) {
			cmd, err := init.enter(&c.spec, e.args, e.streams.TTY)
			if err == nil && e.streams.TTY {
				err = io.openTerminal()
			}
			if err == nil {
				err = io.pumps.own(c.spec.User, c.spec.Group)
			}
			cmd.files = io.files
			return cmd, err
		},
		confine: c.confine,
		limited: !c.spec.Privileged, machine: c.runtime.template.machine,
	}.start()
}

// failed reports why the command could not be executed, and returns its exit code.
func (e *execution) failed(err error) int {
	var cannot *startError
	if e.c.hasEnded() || e.c.isKilled() {
		return exitKilled
	}
	text := "OCI runtime exec failed: exec failed: "
	if errors.As(err, &cannot) {
		text += "unable to start container process: "
	}
	stream := container.Stderr
	if e.streams.TTY {
		stream = container.Stdout
	}
	e.streams.Output.Write(e.c.runtime.cfg.Process.Now(), stream, []byte(text+err.Error()+"\n"))
	return exitCode(err)
}

// kill ends the command: its client has gone.
func (e *execution) kill() {
	e.mu.Lock()
	e.killed = true
	process, out := e.process, e.pumps
	e.mu.Unlock()
	if process == nil {
		return
	}
	process.signal(unix.SIGKILL, true)
	out.end()
}
