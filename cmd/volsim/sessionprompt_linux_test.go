package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A typist uses a program at a pseudo-terminal.
type typist struct {
	*testing.T
	cmd    *exec.Cmd
	pty    *os.File
	screen string // what was not waited for
	before string // what was on the screen before the last text that was waited for
	more   chan string
}

func startPrompt(t *testing.T, args ...string) *typist {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { pty.Close() })
	number, err := unix.IoctlGetInt(int(pty.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(pty.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer tty.Close()
	cmd := command(append([]string{"session"}, args...)...)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &typist{T: t, cmd: cmd, pty: pty, more: make(chan string)}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	go func() {
		defer close(w.more)
		for {
			text := make([]byte, 4096)
			n, err := pty.Read(text)
			if err != nil {
				return
			}
			w.more <- string(text[:n])
		}
	}()
	return w
}

// enter types keys and waits for a text on the screen after the previous one.
func (w *typist) enter(keys, want string) {
	w.Helper()
	w.enterFor(keys, want)
}

// enterFor types keys and waits for one of several texts, which it returns.
func (w *typist) enterFor(keys string, wants ...string) string {
	w.Helper()
	if _, err := w.pty.WriteString(keys); err != nil {
		w.Fatal(err)
	}
	timeout := time.After(programTimeout)
	for {
		for _, want := range wants {
			if before, after, ok := strings.Cut(w.screen, want); ok {
				w.before, w.screen = before, after
				return want
			}
		}
		select {
		case text, ok := <-w.more:
			if !ok {
				w.Fatalf("after %q: ended without %q:\n%s", keys, wants, w.screen)
			}
			w.screen += text
		case <-timeout:
			w.Fatalf("after %q: no %q:\n%s", keys, wants, w.screen)
		}
	}
}

// leave waits for the end of the program and checks its exit status.
func (w *typist) leave(status int) {
	w.Helper()
	go func() {
		for range w.more { // the program must not wait for the screen
		}
	}()
	wantEnd(w.T, w.cmd, status)
}

func TestSessionPrompt(t *testing.T) {
	history := filepath.Join(t.TempDir(), "history")
	w := startPrompt(t, "--history", history)
	w.enter("", "Try:")
	w.enter("", "step 0> ")
	w.enter("cre\tclaim data 64Mi\r", "user creates claim default/data of 64Mi")
	w.enter("", "step 0> ")
	w.enter("foo bar\r", "unknown operation \"foo\" (have step, ")
	w.enter("", "step 0> ")
	w.enter("step 3\r", "step 3\r\n   1  the claim cache") // the line is not repeated
	w.enter("", "step 3> ")
	w.enter("nonsense\x03", "enter quit or Ctrl-D")
	w.enter("", "step 3> ")
	w.enter("back\r", "back at step 0")
	w.enter("", "step 0> ")
	w.enter("\x1b[A\x1b[A\r", "step 3> ") // the history
	w.enter("=\r", "Pending, 64Mi requested")
	w.enter("", "step 3> ")
	if _, err := w.pty.WriteString("\x04"); err != nil {
		t.Fatal(err)
	}
	w.leave(0)
	if text, err := os.ReadFile(history); err != nil || !strings.HasPrefix(string(text), "create claim data 64Mi\nfoo bar\nstep 3\nback\nstep 3\n=\n") {
		t.Errorf("history %q, %v", text, err)
	}
}

// TestInterruptDoesNotEndSession sends SIGINT at the prompt. The answer shows that it does not end
// the operations that follow. SIGTERM ends the session.
func TestInterruptDoesNotEndSession(t *testing.T) {
	w := startPrompt(t)
	w.enter("", "step 0> ")
	if err := w.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	w.enter("", howToEnd)
	w.enter("", "step 0> ")
	w.enter("create claim data 64Mi\r", "step 0> ")
	w.enter("rest\r", "nothing left to do")
	w.enter("", "step ")
	terminate(t, w.cmd)
	w.leave(128 + int(syscall.SIGTERM))
}

// TestCtrlCEndsRunningOperation interrupts operations that would take minutes. The world is as it
// was after the last step, or as it was before "back".
func TestCtrlCEndsRunningOperation(t *testing.T) {
	const hint = "still running; Ctrl-C interrupts"
	w := startPrompt(t)
	w.enter("", "step 0> ")
	for _, op := range []string{"stop driver(node-1)", "create claim data 64Mi", "create pod web data on=node-1"} {
		w.enter(op+"\r", "step 1> ")
	}
	steps := func() (prompt string) {
		w.enter("", "\nstep ")
		w.enter("", "> ")
		return "step " + w.before + "> "
	}
	interrupt := func(op string) {
		t.Helper()
		w.enter(op+"\r", hint)
		w.enter("\x03", "interrupted after ")
		if prompt := steps(); prompt == "step 1> " {
			t.Errorf("%s: no step was run", op)
		}
	}
	interrupt("step 100000000")
	// "back" repeats all steps but the last operation's, in less time than they took at first. When
	// it lasts until the hint, then with several times as many steps it also lasts until Ctrl-C.
	run := func(waits int) (prompt string) {
		t.Helper()
		for range waits {
			interrupt("wait pod web Succeeded")
		}
		w.enter("create claim more 64Mi\r", "user creates claim default/more")
		return steps()
	}
	waits := 1
	for run(waits); w.enterFor("back\r", hint, "back at step ") != hint; run(waits) {
		steps()
		if waits *= 2; waits == 64 {
			t.Fatal("back never lasts until the hint")
		}
	}
	w.enter("", "back at step ")
	steps()
	prompt := run(2 * waits)
	w.enter("back\r", hint)
	w.enter("\x03", "back: interrupted; the session is as it was before\r\n"+prompt)
	w.enter("=\r", "claim default/more")
	w.enter("", prompt)
	w.enter("step\r", "step ")
	w.enter("quit\r", "quit")
	w.leave(0)
}
