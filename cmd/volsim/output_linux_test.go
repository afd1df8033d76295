package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopdev"
)

// outputCommands are command lines that print to standard output, one for each way to do so. FAILS is a scenario with a
// failure, DIR a directory.
var outputCommands = []string{
	"--help", "demo --help", "help demo", "driver", "completion bash",
	"demo --devices array", "demo --devices array --json", "demo --devices array --svg -", "demo",
	"serve --devices array --kubeconfig DIR/config", "serve --by-hand --kubeconfig DIR/config",
	"controllers --list",
	"explore --list", "explore FAILS --out DIR", "explore FAILS --out DIR --json",
	"replay two-claims-one-volume", "replay FAILS --trace --svg -",
	"session", "session LINES --story",
}

// startOutput starts a command in an empty temporary directory. At the end of the test nothing may be left of it.
func startOutput(t *testing.T, line string, stdout *os.File, stdin io.Reader) (cmd *exec.Cmd, errs *bytes.Buffer) {
	t.Helper()
	dir, errs := t.TempDir(), &bytes.Buffer{}
	cmd = command(strings.Fields(strings.NewReplacer("FAILS", writeTemp(t, "race.txt", race), "DIR", dir,
		"LINES", writeTemp(t, "lines.txt", "create claim data 64Mi\nrest\n")).Replace(line))...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, stdin, stdout, errs
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	t.Cleanup(func() {
		found, err := os.ReadDir(dir)
		for _, file := range found {
			if !strings.HasPrefix(file.Name(), "race-") { // saved by explore
				t.Errorf("leaked %s", file.Name())
			}
		}
		devices, listErr := loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, dir) })
		mounts, mountErr := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
		if err := errors.Join(err, listErr, mountErr); err != nil || len(devices)+len(mounts) > 0 {
			t.Errorf("leaked devices %v, mounts %v (%v)", devices, mounts, err)
		}
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // fails if the command has ended
	return cmd, errs
}

// sessionLines is the input of a session.
const sessionLines = "create claim data 64Mi\nstep 3\n=\n?\nevents\nhelp\n"

// statusOf waits for a command and returns its exit status, or -1 if a signal killed it.
func statusOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// TestCommandsEndQuietlyAtAClosedPipe closes the pipe of each command's standard output before it writes, like head.
func TestCommandsEndQuietlyAtAClosedPipe(t *testing.T) {
	for _, line := range outputCommands {
		t.Run(line, func(t *testing.T) {
			reads, writes, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			reads.Close()
			cmd, errs := startOutput(t, line, writes, strings.NewReader(sessionLines))
			writes.Close()
			want := 128 + int(syscall.SIGPIPE)
			if strings.HasPrefix(line, "explore FAILS") {
				want = 1
			}
			status := statusOf(t, cmd)
			errs = withoutProgress(errs)
			if status != want || errs.Len() > 0 {
				t.Errorf("status %d, stderr %q; want %d and nothing", status, errs, want)
			}
		})
	}
}

// withoutProgress removes the progress lines of a search.
func withoutProgress(errs *bytes.Buffer) *bytes.Buffer {
	var rest bytes.Buffer
	for line := range strings.Lines(errs.String()) {
		if !strings.Contains(line, "schedules/s") {
			rest.WriteString(line)
		}
	}
	return &rest
}

// TestCommandsReportAFullDisk writes each command's standard output to a full disk.
func TestCommandsReportAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, line := range outputCommands {
		t.Run(line, func(t *testing.T) {
			cmd, errs := startOutput(t, line, full, strings.NewReader(sessionLines))
			status := statusOf(t, cmd)
			errs = withoutProgress(errs)
			if want := "volsim: standard output: no space left on device\n"; status != 1 || errs.String() != want {
				t.Errorf("status %d, stderr %q; want 1 and %q", status, errs, want)
			}
		})
	}
}

// TestDemoCleansUpAtAnyMoment sends a signal after each few lines of the demo's output.
func TestDemoCleansUpAtAnyMoment(t *testing.T) {
	const lines = 100 // at least as many as the demo prints
	step := 5
	if testing.Short() {
		step = 25
	}
	for at := 0; at < lines; at += step {
		sent := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[at/step%3]
		t.Run(fmt.Sprintf("%v after %d lines", sent, at), func(t *testing.T) {
			reads, writes, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reads.Close()
			cmd, errs := startOutput(t, "demo", writes, nil)
			writes.Close()
			out := bufio.NewScanner(reads)
			for range at + 1 {
				out.Scan()
			}
			if err := cmd.Process.Signal(sent); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, reads)
			status := statusOf(t, cmd)
			interrupted := status == 128+int(sent) && errs.String() == "volsim: interrupted; all volumes, mounts and devices are removed\n"
			if completed := status == 0 && errs.Len() == 0; !interrupted && !completed {
				t.Errorf("status %d, stderr %q", status, errs)
			}
		})
	}
}

// TestSignalsEndACommandThatWaits signals commands that wait for input, for requests, or for the reader of their output.
func TestSignalsEndACommandThatWaits(t *testing.T) {
	for _, tt := range []struct {
		line   string
		status int
	}{
		{"session", 128 + 15},
		{"serve --devices array --kubeconfig DIR/config", 0},
		{"serve --by-hand --kubeconfig DIR/config", 0},
		{"replay FAILS --trace", 128 + 15},
		{"demo --devices array --json", 128 + 15},
	} {
		t.Run(tt.line, func(t *testing.T) {
			reads, writes, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reads.Close()
			if _, err := unix.FcntlInt(writes.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil { // less than the output
				t.Fatal(err)
			}
			stdin, typed, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer typed.Close()
			if _, err := typed.WriteString("=\n"); err != nil {
				t.Fatal(err)
			}
			cmd, errs := startOutput(t, tt.line, writes, stdin)
			writes.Close()
			stdin.Close()
			if _, err := reads.Read(make([]byte, 1)); err != nil {
				t.Fatalf("no output: %v", err)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if status := statusOf(t, cmd); status != tt.status {
				t.Errorf("status %d, stderr %q; want %d", status, errs, tt.status)
			}
		})
	}
}
