//go:build unix

package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/volsim/volsim/internal/gonb"
)

// A result is the result of a process.
type result struct {
	outputs []any
	status  string        // from the system; "" for success
	cpu     time.Duration // CPU time of the process and its children
}

// runProcess runs a command with GoNB's pipes and collects its output. When the command ends, it
// kills the remaining processes of its group. The error excludes failures of the command itself.
// Outputs may be returned together with an error.
func runProcess(ctx context.Context, cmd *exec.Cmd, limit time.Duration, scratch string) (result, error) {
	c := &collector{}
	defer c.close()
	writers := []*os.File{}
	for _, name := range []string{"stdout", "stderr"} {
		w, err := c.stream(name)
		if err != nil {
			return result{}, err
		}
		defer w.Close()
		writers = append(writers, w)
	}
	cmd.Stdout, cmd.Stderr = writers[0], writers[1]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipes, err := openPipes(scratch)
	if err != nil {
		return result{}, err
	}
	defer pipes.close()
	cmd.Env = append(cmd.Env, gonb.PipeEnv+"="+pipes.toPath, gonb.BackEnv+"="+pipes.fromPath)
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	for i, p := range c.streams {
		writers[i].Close()
		go c.follow(p)
	}
	served := make(chan error, 1)
	go func() { served <- pipes.serve(c) }()
	stopped := wait(ctx, cmd, limit)
	r := result{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if !cmd.ProcessState.Success() {
		r.status = cmd.ProcessState.String()
	}
	pipes.end()
	serveErr := <-served
	var outputErr error
	r.outputs, outputErr = c.finish(r.status)
	return r, errors.Join(stopped, outputErr, serveErr)
}

// wait waits for the command, kills it at the time limit, then kills the rest of its process group.
func wait(ctx context.Context, cmd *exec.Cmd, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	group := -cmd.Process.Pid
	over := context.AfterFunc(ctx, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
	_ = cmd.Wait() // the process state has the details
	if !over() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("killed after the time limit of %v", limit)
		}
		return ctx.Err()
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	return nil
}

// pipes are the named pipes of one program.
type pipes struct {
	toPath, fromPath string
	to, from         *os.File
	keep             *os.File // keeps the program's pipe open until the program has opened it
}

func openPipes(dir string) (p *pipes, err error) {
	p = &pipes{toPath: filepath.Join(dir, "to-kernel"), fromPath: filepath.Join(dir, "from-kernel")}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for _, path := range []string{p.toPath, p.fromPath} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return nil, fmt.Errorf("create named pipe %s: %w", path, err)
		}
	}
	if p.to, err = os.OpenFile(p.toPath, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, err
	}
	if p.keep, err = os.OpenFile(p.toPath, os.O_WRONLY, 0); err != nil {
		return nil, err
	}
	p.from, err = os.OpenFile(p.fromPath, os.O_RDWR|syscall.O_NONBLOCK, 0) // opens without waiting for the program
	return p, err
}

// serve processes the program's messages until the pipe ends.
func (p *pipes) serve(c *collector) error {
	gonb.Register()
	messages, answers := gob.NewDecoder(p.to), gob.NewEncoder(p.from)
	for {
		var d gonb.Display
		err := messages.Decode(&d)
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			// Keep reading, so that the program does not block and ends within its time limit.
			_, _ = io.Copy(io.Discard, p.to)
			return fmt.Errorf("read message on $%s: %w", gonb.PipeEnv, err)
		}
		if number, ok := c.handle(d); ok {
			if err := answers.Encode(gonb.Answer(number)); err != nil {
				return err
			}
		}
	}
}

// end lets serve read the remaining messages and return. A surviving process could keep the pipe
// open, hence the deadline.
func (p *pipes) end() {
	p.keep.Close()
	_ = p.to.SetReadDeadline(time.Now().Add(time.Second))
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.to, p.from, p.keep} {
		if f != nil {
			f.Close()
		}
	}
	os.Remove(p.toPath)
	os.Remove(p.fromPath)
}
