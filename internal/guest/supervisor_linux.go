package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// supervisorVariable makes this program the keeper of a guest; it has the job's folder.
const supervisorVariable = "GUEST_KEEPER"

// The files that a keeper has from who starts it, besides its output, which is the kernel's.
const (
	supervisorSignals  = 3 // the kernel's, too
	supervisorFrames   = 4 // the kernel's, too
	supervisorLifeline = 5 // a pipe that ends when the guest shall, and with the process that started it
)

// supervise is a guest's keeper: it runs the kernel (its arguments), kills all of it when its life's pipe ends, and takes away what
// is left. It is a process of its own because one that is killed takes nothing away, and inherits the kernel's processes:
// when it ends, they all have. What became of a kernel that ended by itself is the last of its words.
//
// A kernel's process that is killed leaves others, stopped or waiting, which end neither then nor at SIGTERM.
func supervise(folder string, command []string) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	signal.Ignore(unix.SIGPIPE) // of the words of a kernel that nobody listens to any more
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_CHILD_SUBREAPER: %w", err)
	}
	signals, frames := os.NewFile(supervisorSignals, "signals"), os.NewFile(supervisorFrames, "frames")
	life := os.NewFile(supervisorLifeline, "life")
	kernel := exec.Command(command[0], command[1:]...)
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, supervisorVariable+"=") {
			kernel.Env = append(kernel.Env, pair)
		}
	}
	kernel.Stdout, kernel.Stderr = os.Stdout, os.Stderr
	kernel.ExtraFiles = []*os.File{signals, frames}
	kernel.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := startPinned(kernel); err != nil {
		return err
	}
	if err := errors.Join(signals.Close(), frames.Close()); err != nil {
		return err
	}
	group := kernel.Process.Pid
	go func() {
		// Nothing is written to it: it ends, or breaks.
		_, _ = io.Copy(io.Discard, life)
		killGroup(group)
	}()
	ended := kernel.Wait()
	killGroup(group)
	reapGroup(group)
	var exit *exec.ExitError
	if ended != nil && !errors.As(ended, &exit) {
		return ended
	}
	// Who would read it may be gone.
	_, _ = fmt.Fprintf(kernel.Stdout, "%s: %v\n", filepath.Base(command[0]), kernel.ProcessState)
	return nil
}

// startPinned starts a command on the processor that this process runs on, and leaves it there. The kernel and the processes in
// it take turns, thousands of times for each program that they run: to hand over to another processor takes twice as long.
func startPinned(command *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu, err := currentCPU()
	if err != nil {
		return err
	}
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("sched_setaffinity: %w", err)
	}
	return command.Start()
}

// currentCPU is the number of the one that this thread runs on.
func currentCPU() (int, error) {
	const file, field = "/proc/thread-self/stat", 36 // of those after the name, which is in parentheses
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= field {
		return 0, fmt.Errorf("%s has no number of a processor: %q", file, text)
	}
	return strconv.Atoi(fields[field])
}

// killGroup kills what there is of the group, which may be nothing.
func killGroup(group int) { _ = unix.Kill(-group, unix.SIGKILL) }

// reapGroup waits until nothing is left of the group.
func reapGroup(group int) {
	for {
		if _, err := unix.Wait4(-group, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
