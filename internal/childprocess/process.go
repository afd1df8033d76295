package childprocess

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// stopTimeout is how long a program has to end by itself.
const stopTimeout = 5 * time.Second

// A Process is a program that was started. Its methods may be called concurrently.
type Process struct {
	process *os.Process
	ended   context.Context //nolint:containedctx // ends with the program, with its error as the cause
}

// Start starts a program.
func Start(cmd *exec.Cmd) (*Process, error) {
	dieWithParent(cmd)
	ctx, end := context.WithCancelCause(context.Background())
	started := make(chan error, 1)
	go func() {
		// The death signal is sent when the thread that started the program ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
		}
		end(err)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return &Process{process: cmd.Process, ended: ctx}, nil
}

// Done returns a channel that is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.ended.Done() }

// Err returns why the program ended, such as "exit status 1"; nil while it runs, or if its status is 0.
func (p *Process) Err() error {
	if err := context.Cause(p.ended); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Runs reports whether the program has not ended.
func (p *Process) Runs() bool { return p.ended.Err() == nil }

// Kill ends the program at once and returns when it has ended.
func (p *Process) Kill() {
	_ = p.process.Kill() // it fails only if the program has ended
	<-p.Done()
}

// Stop asks the program to end, and kills it if it does not within 5 s. It returns when it has ended.
func (p *Process) Stop() {
	_ = p.process.Signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
	}
}
