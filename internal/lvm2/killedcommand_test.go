//go:build linux

package lvm2_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// tracerName is the name under which this program runs lvm and kills it at a given stop: the
// beginning or the end of a system call.
const tracerName = "lvm-traced"

// traced makes a world run lvm under this program. The commands together make a number of stops;
// then the running one is killed, and later ones run to their end.
func (w *world) traced(t *testing.T, stops int) {
	t.Helper()
	testcheck.NoError(t, useTracer(w.System, w.directory, stops, "command"))
}

// useTracer makes a System run lvm under this program, with links and files in a directory. After
// the stops the tracer kills the victim: the "command", or the "process" that runs it.
func useTracer(system *lvm2.System, directory string, stops int, victim string) error {
	tracer := filepath.Join(directory, tracerName)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if lvm := system.SetCommand(tracer); lvm != tracer {
		_, err = os.Lstat(tracer)
		if errors.Is(err, os.ErrNotExist) {
			err = errors.Join(os.Symlink(self, tracer), os.Symlink(lvm, tracer+".command"))
		}
	}
	return errors.Join(err, os.WriteFile(tracer+".victim", []byte(victim), 0o600),
		os.WriteFile(tracer+".stops", []byte(strconv.Itoa(stops)), 0o600))
}

// stops returns how many stops are left, which is 0 when a command was killed.
func (w *world) stops(t *testing.T) int {
	t.Helper()
	stops, err := readStops(filepath.Join(w.directory, tracerName))
	testcheck.NoError(t, err)
	return stops
}

func readStops(tracer string) (int, error) {
	text, err := os.ReadFile(tracer + ".stops")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// trace is the main function of this program as the tracer.
func trace(tracer string, arguments []string) error {
	stops, err := readStops(tracer)
	if err != nil {
		return err
	}
	lvm, err := os.Readlink(tracer + ".command")
	if err != nil {
		return err
	}
	if stops == 0 {
		return unix.Exec(lvm, append([]string{lvm}, arguments...), os.Environ())
	}
	runtime.LockOSThread() // a traced process obeys one thread
	command := exec.Command(lvm, arguments...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	if err := command.Start(); err != nil {
		return err
	}
	child := command.Process.Pid
	if _, err := await(child); err != nil {
		return err
	}
	if err := unix.PtraceSetOptions(child, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		return err
	}
	for signal := 0; stops > 0; { // it has stopped at its beginning
		if err := unix.PtraceSyscall(child, signal); err != nil {
			return err
		}
		status, err := await(child)
		if err != nil {
			return err
		}
		switch signal = 0; {
		case status.Exited():
			if err := os.WriteFile(tracer+".stops", []byte(strconv.Itoa(stops)), 0o600); err != nil {
				return err
			}
			os.Exit(status.ExitStatus())
		case status.Signaled():
			return fmt.Errorf("lvm ended with signal %v", status.Signal())
		case status.StopSignal() == unix.SIGTRAP|0x80:
			stops--
		default:
			signal = int(status.StopSignal())
		}
	}
	if err := os.WriteFile(tracer+".stops", []byte("0"), 0o600); err != nil {
		return err
	}
	victim, err := os.ReadFile(tracer + ".victim")
	if err != nil {
		return err
	}
	if string(victim) == "process" { // the command continues, as it has a process group of its own
		err := errors.Join(unix.Kill(os.Getppid(), unix.SIGKILL), unix.PtraceDetach(child))
		if err == nil {
			_, err = await(child)
		}
		return err
	}
	if err := unix.Kill(child, unix.SIGKILL); err != nil {
		return err
	}
	if _, err := await(child); err != nil {
		return err
	}
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// await waits until a traced process has stopped or ended.
func await(child int) (status unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(child, &status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return status, err
		}
	}
}

// A killed command has taken effect or not; a retry completes it.
func TestKilledCommands(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		spec := func(i int) lvm2.Spec {
			return lvm2.Spec{Name: fmt.Sprintf("v%d", i), Size: 4 * mib, Tags: []string{fmt.Sprintf("uid=%d", i)}}
		}
		const many = 1 << 30
		w.traced(t, many)
		w.create(t, spec(0))
		whole := many - w.stops(t)
		if whole < 100 {
			t.Fatalf("a volume was created in %d stops", whole)
		}
		tries := often(40)
		for i := 1; i <= tries; i++ {
			w.traced(t, 1+whole*(i-1)/tries) // a group with more volumes needs no fewer
			_, err := w.group.Create(w.ctx, spec(i))
			if left := w.stops(t); left > 0 {
				t.Errorf("volume %d was created %d stops before its command was killed: %v", i, left, err)
			}
			w.create(t, spec(i))
		}
		testcheck.NoError(t, w.group.Check(w.ctx))
		volumes, err := w.group.List(w.ctx)
		testcheck.NoError(t, err)
		if len(volumes) != 1+tries {
			t.Errorf("there are %q", namesOf(volumes))
		}
	})
}

// A command that has started survives the end of its context; one that has not does not start.
func TestCanceledContext(t *testing.T) {
	metadataOnly(t)
	eachMode(t, func(t *testing.T, w *world) {
		// The first command reports its process ID, and waits for a line.
		told, proceed := filepath.Join(w.directory, "told"), filepath.Join(w.directory, "proceed")
		testcheck.NoError(t, unix.Mkfifo(told, 0o600))
		testcheck.NoError(t, unix.Mkfifo(proceed, 0o600))
		script := filepath.Join(w.directory, "waiting")
		lvm := w.SetCommand(script)
		testcheck.NoError(t, os.WriteFile(script, fmt.Appendf(nil, `#!/bin/sh
if mv %[2]s %[2]s.used 2>/dev/null; then
	echo $$ >%[1]s
	read x <%[2]s.used
fi
exec %[3]s "$@"
`, told, proceed, lvm), 0o700))
		ctx, cancel := context.WithCancel(w.ctx)
		done := make(chan error, 1)
		go func() {
			_, err := w.group.Create(ctx, lvm2.Spec{Name: "v", Size: 4 * mib})
			done <- err
		}()
		text, err := os.ReadFile(told)
		testcheck.NoError(t, err)
		child, err := strconv.Atoi(strings.TrimSpace(string(text)))
		testcheck.NoError(t, err)
		group, err := unix.Getpgid(child)
		testcheck.NoError(t, err)
		if group != child {
			t.Errorf("the command is in process group %d, so signals of the terminal would end it", group)
		}
		cancel()
		testcheck.NoError(t, os.WriteFile(proceed+".used", []byte("\n"), 0))
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		_, err = w.group.Find(w.ctx, "v")
		testcheck.NoError(t, err)
		_, err = w.group.Create(ctx, lvm2.Spec{Name: "w", Size: 4 * mib})
		wantError(t, err, context.Canceled)
		_, err = w.group.Find(w.ctx, "w")
		wantError(t, err, lvm2.ErrNotFound)
	})
}
