package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// keeperVariable makes this program the keeper of a guest; it has the job's folder.
const keeperVariable = "GUEST_KEEPER"

// The files that a keeper has from who starts it, besides its output, which is the kernel's.
const (
	keeperSignals = 3 // the kernel's, too
	keeperFrames  = 4 // the kernel's, too
	keeperLife    = 5 // a pipe that ends when the guest shall, and with the process that started it
)

// keep is a guest's keeper: it runs the kernel (its arguments), kills all of it when its life's pipe ends, and takes away what
// is left. It is a process of its own because one that is killed takes nothing away, and inherits the kernel's processes:
// when it ends, they all have. What became of a kernel that ended by itself is the last of its words.
//
// A kernel's process that is killed leaves others, stopped or waiting, which end neither then nor at SIGTERM.
func keep(folder string, command []string) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	signal.Ignore(unix.SIGPIPE) // of the words of a kernel that nobody listens to any more
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_CHILD_SUBREAPER: %w", err)
	}
	signals, frames := os.NewFile(keeperSignals, "signals"), os.NewFile(keeperFrames, "frames")
	life := os.NewFile(keeperLife, "life")
	kernel := exec.Command(command[0], command[1:]...)
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, keeperVariable+"=") {
			kernel.Env = append(kernel.Env, pair)
		}
	}
	kernel.Stdout, kernel.Stderr = os.Stdout, os.Stderr
	kernel.ExtraFiles = []*os.File{signals, frames}
	kernel.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := kernel.Start(); err != nil {
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
