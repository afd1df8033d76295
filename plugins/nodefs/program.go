package nodefs

import (
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"syscall"
	"time"
)

// outputMax bounds what a program may print, in bytes.
const outputMax = 1 << 20

// waitDelay is how long children of a program may keep its output open after it has ended.
const waitDelay = time.Second

// programMode is the mode of a program in Memory.
const programMode fs.FileMode = 0o755

// programs runs the programs on a disk.
type programs interface {
	// Run runs the program at path and returns everything that it prints, to both outputs. The error
	// says that it cannot be run, that it failed, or that it printed more than 1 MiB. When ctx ends,
	// a program of Real is killed with its process group. Memory calls the function, which may
	// return earlier then.
	Run(ctx context.Context, path string, args ...string) ([]byte, error)
}

// A program is a program on a disk in memory. It returns what it prints, and an error if it fails.
type program func(ctx context.Context, args ...string) ([]byte, error)

// WriteProgram creates the executable file name, or replaces it as WriteFile does. run returns what
// the program prints, and an error if it fails. As a file the program is empty.
func (m *Memory) WriteProgram(name string, run func(ctx context.Context, args ...string) ([]byte, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.locateEntry(name)
	if err != nil {
		return err
	}
	return here.change("write", name, func(top *node) error {
		if err := top.write(here.elements(), nil); err != nil {
			return err
		}
		file, err := top.findPath(here.rest)
		if err == nil {
			file.program, file.mode = run, programMode
		}
		return err
	})
}

// Run implements FS.
func (m *Memory) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	var run program
	err := m.read("exec", name, func(n *node) error {
		switch {
		case n.isDirectory(), n.mode&0o111 == 0:
			return syscall.EACCES
		case n.program == nil:
			return syscall.ENOEXEC
		}
		run = n.program
		return nil
	})
	if err != nil {
		return nil, err
	}
	output, err := run(ctx, args...)
	if len(output) > outputMax {
		return output[:outputMax], outputError(name)
	}
	return output, err
}

func outputError(name string) error {
	return fmt.Errorf("exec %s: output exceeds %d bytes", name, outputMax)
}

// Run implements FS. It waits at most a second for children that keep the output open.
func (r *Real) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	place, err := r.resolve(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	output := &boundedBuffer{overflow: func() { cancel(outputError(name)) }}
	command := exec.CommandContext(ctx, place, args...)
	command.Stdout, command.Stderr = output, output
	command.WaitDelay = waitDelay
	killGroup(command)
	err = command.Run()
	if cause := context.Cause(ctx); cause != nil && (err != nil || output.full) {
		err = cause
	}
	return output.data, err
}

// A boundedBuffer keeps the first outputMax bytes.
type boundedBuffer struct {
	data     []byte
	full     bool // there was more
	overflow func()
}

// Write appends what fits. It never fails, so that the writer is not stopped by a broken pipe.
func (b *boundedBuffer) Write(data []byte) (int, error) {
	room := outputMax - len(b.data)
	b.data = append(b.data, data[:min(room, len(data))]...)
	if len(data) > room {
		b.full = true
		b.overflow()
	}
	return len(data), nil
}
