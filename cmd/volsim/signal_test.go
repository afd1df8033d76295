package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/internal/filelock"
	"github.com/volsim/volsim/plugins/loop"
)

// wantEnd waits for the end of a program and checks its exit status; -1 is the end by a signal.
func wantEnd(t *testing.T, cmd *exec.Cmd, status int) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
		if got := cmd.ProcessState.ExitCode(); got != status {
			t.Errorf("exit status %d, want %d", got, status)
		}
	case <-time.After(programTimeout):
		_ = cmd.Process.Kill()
		<-ended
		t.Error("program does not end")
	}
}

// terminate sends SIGTERM to a program.
func terminate(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func TestSignalEndsSessionThatWaitsForInput(t *testing.T) {
	cmd := command("session")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := input.Write([]byte("nonsense\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	terminate(t, cmd)
	wantEnd(t, cmd, 128+int(syscall.SIGTERM))
}

func TestSignalEndsCommandThatWaitsForFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"explore", "replay", "session"} {
		t.Run(name, func(t *testing.T) {
			cmd := command(name, pipe)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the program reads
			if err != nil {
				t.Fatal(err)
			}
			defer writer.Close()
			terminate(t, cmd)
			wantEnd(t, cmd, 128+int(syscall.SIGTERM))
		})
	}
}

// TestSignalEndsWaitForSocketLock locks the directory of a driver's socket in this process.
func TestSignalEndsWaitForSocketLock(t *testing.T) {
	dir := t.TempDir()
	held, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := filelock.TryLock(held); err != nil {
		t.Fatal(err)
	}
	cmd := command("driver", "array", "--endpoint", socketIn(dir), "--node-id", "node-1")
	log := newProgramLog()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	(&program{T: t, log: log}).waitFor("are in memory")
	terminate(t, cmd)
	wantEnd(t, cmd, 128+int(syscall.SIGTERM))
	if text := log.String(); !strings.Contains(text, dir+" is locked by ") {
		t.Errorf("the lock is not named:\n%s", text)
	}
}

// TestSecondSignalEndsDriverAtOnce stops a driver during a call that does not end.
func TestSecondSignalEndsDriverAtOnce(t *testing.T) {
	dir := t.TempDir()
	p := startDriver(t, socketIn(dir), "array", "--grace", "1h")
	if _, err := p.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, csi.Identity_Probe_FullMethodName); err != nil {
		t.Fatal(err)
	}
	if _, err := csi.NewIdentityClient(p.conn).Probe(t.Context(), &csi.ProbeRequest{}); err != nil { // after the other call
		t.Fatal(err)
	}
	terminate(t, p.cmd)
	p.waitFor("msg=stopping")
	terminate(t, p.cmd)
	select {
	case err := <-p.ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != -1 {
			t.Errorf("program ended with %v, want the signal", err)
		}
	case <-time.After(programTimeout):
		t.Error("program does not end")
	}
}

// TestStateMayContainSockets runs two drivers with their sockets in the state directory of the first.
func TestStateMayContainSockets(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "kubelet")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	first := startDriver(t, socketIn(state), "loop", "--state", state, "--root", root,
		"--kubelet-registration", filepath.Join(state, "reg.sock"))
	second := startDriver(t, filepath.Join(state, "other.sock"), "array")
	out, err := command("driver", "loop", "--endpoint", filepath.Join(dir, "s"), "--state", state, "--root", root).CombinedOutput()
	if want := "lock is locked by process "; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("third driver: %v, %s; want %q", err, out, want)
	}
	second.stop()
	first.stop()
}
