//go:build amd64 || arm64

package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

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
	out, err := newPumps(e.streams.Output, e.c.runtime.cfg.Process.Now)
	if err != nil {
		return e.failed(err)
	}
	process, stdin, err := e.start(init, out)
	out.start()
	if err != nil {
		out.finish()
		return e.failed(err)
	}
	e.mu.Lock()
	e.process, e.pumps = process, out
	killed := e.killed
	e.mu.Unlock()
	if killed {
		e.kill()
	}
	if stdin != nil {
		go feed(stdin, e.streams.Stdin, process.done)
	}
	<-process.done
	if stdin != nil {
		_ = stdin.SetWriteDeadline(time.Unix(1, 0)) // it fails only if it is closed
	}
	out.finish()
	return process.code
}

// start starts the process in the namespaces of process 1. stdin is nil if the client has none.
func (e *execution) start(init *child, out *pumps) (process *child, stdin *os.File, err error) {
	files := [3]*os.File{nil, out.stdout(), out.stderr()}
	if e.streams.TTY {
		files[2] = files[1]
	}
	if files[0], stdin, err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	if e.streams.Stdin == nil { // not the machine's /dev/null, whose mode the command could change
		stdin.Close()
		stdin = nil
	}
	defer files[0].Close()
	c := e.c
	process, err = launch{
		enter:   func() (command, error) { return init.enter(&c.spec, e.args, files) },
		confine: func(p *child) error { return c.runtime.groups.enter(c.group, p.pid) },
		limited: !c.spec.Privileged, machine: c.runtime.template.machine,
	}.start()
	if err != nil && stdin != nil {
		stdin.Close()
	}
	return process, stdin, err
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
