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

// supervisorVariable makes this program the supervisor of a guest; its value is the job's folder.
const supervisorVariable = "GUEST_KEEPER"

// The supervisor's file descriptors, besides its output, which is the kernel's.
const (
	supervisorSignals  = 3 // inherited by the kernel
	supervisorFrames   = 4 // inherited by the kernel
	supervisorLifeline = 5 // a pipe; its end, also by the death of the starting process, ends the guest
)

// supervise runs a kernel, given by its command line. When the lifeline ends it kills the kernel
// and removes the folder. It must be a separate process: a killed process cannot clean up, and the
// supervisor adopts the kernel's processes, so that all of them have ended when it ends. It prints
// the exit state of the kernel as the last line of the console.
//
// Killing one process of a User-Mode-Linux kernel leaves others behind, stopped or waiting, which
// SIGTERM does not end.
func supervise(folder string, command []string) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	signal.Ignore(unix.SIGPIPE) // from writing console output after the reader has gone
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
		// No data is written to the lifeline: it only ends.
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
	// The reader may have gone.
	_, _ = fmt.Fprintf(kernel.Stdout, "%s: %v\n", filepath.Base(command[0]), kernel.ProcessState)
	return nil
}

// startPinned starts a command on the current CPU and pins it there. The kernel and its processes
// switch thousands of times per program; switching to another CPU takes twice as long.
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

// currentCPU returns the number of this thread's CPU.
func currentCPU() (int, error) {
	const file, field = "/proc/thread-self/stat", 36 // index after the name, which is in parentheses
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= field {
		return 0, fmt.Errorf("no CPU number in %s: %q", file, text)
	}
	return strconv.Atoi(fields[field])
}

// killGroup kills the processes of the group, if any.
func killGroup(group int) { _ = unix.Kill(-group, unix.SIGKILL) }

// reapGroup waits until all processes of the group have ended.
func reapGroup(group int) {
	for {
		if _, err := unix.Wait4(-group, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
