package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// bootDefault is how long process 1 may take to report. On an idle machine it takes about half
	// a second.
	bootDefault = time.Minute
	// signalsMax is how many signals are queued while a guest boots.
	signalsMax = 16
)

// A Guest is a started guest. Its methods are safe for concurrent use.
type Guest struct {
	supervisor *exec.Cmd
	pipes      pipes
	signals    chan syscall.Signal
	power      sync.Once // closes the lifeline
	killed     atomic.Bool
	ended      chan struct{} // closed when all processes have ended and err is set
	err        error
}

// Run runs a command in a new guest. It returns nil, an ExitError, a CrashError, the cause of the
// context's end, or an error from Start such as ErrUnavailable.
func Run(ctx context.Context, c Config, command ...string) error {
	g, err := Start(ctx, c, command...)
	if err != nil {
		return err
	}
	return g.Wait()
}

// Start starts a guest that runs the command as root: a program's name or path and its arguments.
// The guest ends with the command, by Kill, or when the context is done. The caller must call Wait.
func Start(ctx context.Context, c Config, command ...string) (*Guest, error) {
	if err := Probe(c); err != nil {
		return nil, err
	}
	c, j, err := c.complete(command)
	if err != nil {
		return nil, err
	}
	folder, err := newFolder()
	if err != nil {
		return nil, err
	}
	g := &Guest{signals: make(chan syscall.Signal, signalsMax), ended: make(chan struct{})}
	if err := g.start(ctx, c, j, folder); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return g, nil
}

// Kill simulates a power failure: it kills the guest's processes. Wait then returns ErrKilled, or
// the command's result if it had already ended.
func (g *Guest) Kill() {
	g.killed.Store(true)
	g.powerOff()
}

// Signal sends a signal to the command. While the guest boots, signals are queued; excess ones are
// dropped.
func (g *Guest) Signal(s syscall.Signal) {
	select {
	case g.signals <- s:
	default:
	}
}

// Wait waits for the end of the guest and returns the same errors as Run.
func (g *Guest) Wait() error {
	<-g.ended
	return g.err
}

// complete fills in the defaults and returns the job.
func (c Config) complete(command []string) (Config, *job, error) {
	if len(command) == 0 {
		return c, nil, errors.New("no command for the guest: specify one")
	}
	if len(c.Disks) > disksMax {
		return c, nil, fmt.Errorf("%d disks: a guest supports at most %d", len(c.Disks), disksMax)
	}
	if c.Memory == 0 {
		c.Memory = memoryDefault
	}
	if c.Memory < memoryMin {
		return c, nil, fmt.Errorf("%d bytes of memory: a guest requires at least %d", c.Memory, memoryMin)
	}
	if c.BootTimeout == 0 {
		c.BootTimeout = bootDefault
	}
	if c.Modules == nil {
		c.Modules = Modules()
	}
	if c.Stdout == nil {
		c.Stdout = os.Stdout
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	var err error
	if c.Disks, err = absolute(c.Disks); err != nil {
		return c, nil, err
	}
	if c.Writable, err = absolute(c.Writable); err != nil {
		return c, nil, err
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return c, nil, err
	}
	return c, &job{
		Command: command, Dir: c.Dir, Env: environment(c.Env, len(c.Disks)),
		Modules: c.Modules, Writable: c.Writable, Merged: c.Stdout == c.Stderr,
	}, nil
}

// environment returns the command's environment: the given one with the guest's own variables.
func environment(base []string, disks int) []string {
	nodes := make([]string, disks)
	for i := range nodes {
		nodes[i] = diskNode(i)
	}
	own := map[string]string{
		"PATH":            systemPath,
		"TMPDIR":          guestTempDir,
		"DM_DISABLE_UDEV": "1",
		disksVariable:     strings.Join(nodes, " "),
	}
	var all []string
	for _, pair := range base {
		name, value, _ := strings.Cut(pair, "=")
		if name == "PATH" && value != "" {
			own[name] = value + ":" + systemPath
		}
		if _, overridden := own[name]; !overridden {
			all = append(all, pair)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		all = append(all, name+"="+own[name])
	}
	return all
}

// start starts the supervisor, which starts the kernel.
func (g *Guest) start(ctx context.Context, c Config, j *job, folder string) error {
	if err := j.save(filepath.Join(folder, "job")); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Symlink(self, filepath.Join(folder, "init")); err != nil {
		return err
	}
	environ, err := kernelEnvironment(c, folder)
	if err != nil {
		return err
	}
	var remote pipes
	if g.pipes, remote, err = openPipes(); err != nil {
		return err
	}
	g.supervisor = exec.Command(self, append([]string{c.kernel()}, kernelArguments(c, folder)...)...)
	g.supervisor.Env = append(environ, supervisorVariable+"="+folder)
	g.supervisor.Stdout, g.supervisor.Stderr = remote.console, remote.console
	g.supervisor.ExtraFiles = []*os.File{remote.signals, remote.frames, remote.lifeline} // 3, 4, 5
	// With its own process group, the guest receives Ctrl-C of a terminal only from this process.
	g.supervisor.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	err = g.supervisor.Start()
	remote.close()
	if err != nil {
		g.pipes.close()
		return err
	}
	go g.follow(ctx, c)
	return nil
}

// follow reads the guest's frames until its end. It powers the guest off after the last frame, when
// it does not boot in time, and when the context is done.
func (g *Guest) follow(ctx context.Context, c Config) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	context.AfterFunc(ctx, g.powerOff)
	boot, forget := context.WithTimeoutCause(ctx, c.BootTimeout, errBoot)
	defer forget()
	booted := context.AfterFunc(boot, func() { giveUp(context.Cause(boot)) })
	console, consoleEnded := &tailWriter{also: c.Console}, make(chan struct{})
	go func() { defer close(consoleEnded); console.copyFrom(g.pipes.console) }()
	result := g.listen(c, booted)
	cause := context.Cause(ctx)
	g.powerOff()
	<-consoleEnded
	err := g.supervisor.Wait()
	g.pipes.close()
	g.err = g.outcome(result, cause, err, console)
	close(g.ended)
}

// powerOff kills the guest by closing the lifeline.
func (g *Guest) powerOff() {
	// No data is written to this pipe, so no error matters.
	g.power.Do(func() { _ = g.pipes.lifeline.Close() })
}

// pipes are one side of all pipes of a guest.
type pipes struct{ signals, frames, console, lifeline *os.File }

func openPipes() (local, remote pipes, err error) {
	open := func(read, write **os.File) {
		if err == nil {
			*read, *write, err = os.Pipe()
		}
	}
	open(&remote.signals, &local.signals)
	open(&local.frames, &remote.frames)
	open(&local.console, &remote.console)
	open(&remote.lifeline, &local.lifeline)
	if err != nil {
		local.close()
		remote.close()
	}
	return local, remote, err
}

// close closes the open files. No written data can be lost.
func (p pipes) close() {
	for _, f := range []*os.File{p.signals, p.frames, p.console, p.lifeline} {
		_ = f.Close()
	}
}

// A commandResult is the result of the command as reported by the guest.
type commandResult struct {
	ended bool // the command has ended, and code is its exit status
	code  int
	err   error // invalid frame, failure to run the command, or error of a Writer
}

// listen processes the guest's frames until the last one, or until its processes have ended.
func (g *Guest) listen(c Config, booted func() bool) (t commandResult) {
	for {
		k, payload, err := readFrame(g.pipes.frames)
		if err != nil {
			if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.err = err
			}
			return t
		}
		switch k {
		case frameBooted:
			booted()
			go g.passSignals()
		case frameStdout:
			_, err = c.Stdout.Write(payload)
		case frameStderr:
			_, err = c.Stderr.Write(payload)
		case frameExited:
			t.ended, t.code = true, int(int32(binary.BigEndian.Uint32(payload)))
			return t
		case frameStartFailed:
			t.err = errors.New(string(payload))
			return t
		default:
			err = fmt.Errorf("unknown frame kind %q", k)
		}
		if err != nil {
			t.err = err
			return t
		}
	}
}

// errBoot is the cause of ending a guest that does not report.
var errBoot = errors.New("process 1 did not report in time")

// passSignals forwards queued signals until the guest has ended.
func (g *Guest) passSignals() {
	for {
		select {
		case s := <-g.signals:
			// Fails only if the guest has ended.
			_, _ = g.pipes.signals.Write([]byte{byte(s)})
		case <-g.ended:
			return
		}
	}
}

// outcome returns the error of Wait, after all processes have ended.
func (g *Guest) outcome(t commandResult, cause, kept error, console *tailWriter) error {
	switch {
	case kept != nil:
		return fmt.Errorf("guest supervisor: %w: %v", kept, console)
	case t.ended && t.code == 0:
		return nil
	case t.ended:
		return &ExitError{t.code}
	case t.err != nil:
		return fmt.Errorf("guest: %w", t.err)
	case g.killed.Load():
		return ErrKilled
	case cause != nil && cause != errBoot:
		return fmt.Errorf("guest ended: %w", cause)
	case cause != nil:
		return &CrashError{Reason: cause.Error(), Console: console.String()}
	default:
		return &CrashError{Reason: "kernel exited", Console: console.String()}
	}
}
