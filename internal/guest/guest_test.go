//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/guest"
)

// patience is the time limit for hanging tests.
const patience = 2 * time.Minute

// roleVariable makes this binary act as a guest's command or a starter of guests.
const roleVariable = "GUEST_TEST_ROLE"

func TestMain(m *testing.M) {
	guest.Main()
	roles := map[string]func() error{"listen": listenOnLoopback, "start": startAndStay, "missing": printProbe, "alternate": alternate}
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		if err := role(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// needGuests skips the test if no guest can run. Otherwise it sets a separate TMPDIR, and checks that no files in it and no
// processes that name it remain.
func needGuests(t *testing.T, c guest.Config) {
	t.Helper()
	if err := guest.Probe(c); err != nil {
		t.Skip(err)
	}
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", folder)
	t.Cleanup(func() {
		if pids := processes(t, folder); len(pids) != 0 {
			t.Errorf("leaked processes: %v", pids)
		}
		if err := os.Remove(folder); err != nil {
			t.Errorf("leaked files: %v", err)
		}
	})
}

// processes returns the processes of guests with jobs below the folder.
func processes(t *testing.T, folder string) (pids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err != nil || !bytes.Contains(text, []byte("uml_dir="+folder+"/")) {
			continue // another process, or already ended
		}
		var pid int
		if _, err := fmt.Sscanf(line, "/proc/%d/", &pid); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// A result is the result of a command in a guest.
type result struct {
	stdout, stderr string
	err            error
}

// run runs a shell script in a guest.
func run(t *testing.T, c guest.Config, script string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	err := guest.Run(ctx, c, "sh", "-c", script)
	return result{stdout.String(), stderr.String(), err}
}

func TestCommandResults(t *testing.T) {
	needGuests(t, guest.Config{})
	for _, c := range []struct {
		name, script string
		code         int
		stdout       string
		stderr       string
	}{
		{"succeeds", "echo out; echo err >&2", 0, "out\n", "err\n"},
		{"fails", "printf a; exit 3", 3, "a", ""},
		{"killed by a signal", "kill -TERM $$", 128 + 15, "", ""},
		{"leaves a process with its output open", "sleep 1000 & setsid sleep 1000 & echo left", 0, "left\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, guest.Config{}, c.script)
			if code := exitCode(t, got.err); code != c.code || got.stdout != c.stdout || got.stderr != c.stderr {
				t.Errorf("got exit status %d, %q and %q; want %d, %q and %q", code, got.stdout, got.stderr, c.code, c.stdout, c.stderr)
			}
		})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\npwd"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := guest.Run(t.Context(), guest.Config{Dir: dir, Stdout: &out}, "./program")
	if err != nil || out.String() != dir+"\n" {
		t.Errorf("program in the working directory: got %q, %v; want %q", out.String(), err, dir)
	}
	out.Reset()
	err = guest.Run(t.Context(), guest.Config{Stdout: &out, Stderr: &out}, "no-such-program")
	if code := exitCode(t, err); code != 127 || !strings.Contains(out.String(), "no-such-program") {
		t.Errorf("missing command: exit status %d, %q; want 127 and its name", code, out.String())
	}
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *guest.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit == nil {
		return 0
	}
	return exit.Code
}

func TestOutputIsCompleteAndInOrder(t *testing.T) {
	needGuests(t, guest.Config{})
	// Larger than the buffers of the line and its pipe, with every byte that a terminal could change.
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(i ^ i>>8 ^ i>>16)
	}
	file := filepath.Join(t.TempDir(), "bytes")
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(t, guest.Config{}, "cat "+file); got.err != nil || got.stdout != string(want) {
		t.Errorf("got %d bytes and %v; want the %d of the file", len(got.stdout), got.err, len(want))
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var both bytes.Buffer
	err = guest.Run(t.Context(), guest.Config{Stdout: &both, Stderr: &both, Env: []string{roleVariable + "=alternate"}}, self)
	if want := strings.Repeat("out\nerr\n", alternations); err != nil || both.String() != want {
		t.Errorf("got %v and %d bytes, want %d in order", err, both.Len(), len(want))
	}
}

const alternations = 500

// alternate is a guest's command.
func alternate() error {
	for range alternations {
		_, out := fmt.Fprintln(os.Stdout, "out")
		_, err := fmt.Fprintln(os.Stderr, "err")
		if err := errors.Join(out, err); err != nil {
			return err
		}
	}
	return nil
}

// TestOutputIsLiveAndSignalsAreForwarded checks that output arrives at once and that a command can be interrupted.
func TestOutputIsLiveAndSignalsAreForwarded(t *testing.T) {
	needGuests(t, guest.Config{})
	from, to := io.Pipe()
	g, err := guest.Start(t.Context(), guest.Config{Stdout: to},
		"sh", "-c", "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.1; done")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Kill()
	go func() { to.CloseWithError(g.Wait()) }()
	expect(t, from, "ready\n")
	g.Signal(unix.SIGINT)
	expect(t, from, "interrupted\n")
	if code := exitCode(t, g.Wait()); code != 9 {
		t.Errorf("exit status %d, want 9", code)
	}
}

// expect checks the next bytes.
func expect(t *testing.T, from io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(from, got); err != nil || string(got) != want {
		t.Fatalf("got %q and %v, want %q", got[:n], err, want)
	}
}

func TestContextEndsGuest(t *testing.T) {
	needGuests(t, guest.Config{})
	cause := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	from, to := io.Pipe()
	// The command is busy and ignores signals.
	g, err := guest.Start(ctx, guest.Config{Stdout: to}, "sh", "-c", "trap '' INT TERM; echo ready; while :; do :; done")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, from, "ready\n")
	stop(cause)
	if err := g.Wait(); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
}

func TestGuestIsIsolated(t *testing.T) {
	needGuests(t, guest.Config{})
	dir, writable, disk := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, guest.Config{
		Dir: dir, Env: []string{"A=b c", "PATH=/nowhere", "TMPDIR=/nowhere", roleVariable + "=listen"},
		Writable: []string{writable}, Disks: []string{disk}, Memory: 256 << 20,
	}, strings.Join([]string{
		`id -u; pwd; echo "$A"`,
		`echo x > $TMPDIR/file && cat $TMPDIR/file`,
		`touch ` + dir + `/file 2>/dev/null || echo read-only`,
		`echo kept > ` + writable + `/file`,
		`echo "$GUEST_DISKS"; blockdev --getsize64 $GUEST_DISKS; printf written > $GUEST_DISKS`,
		`dmsetup version | grep -c "Driver version"`,
		self,
		roleVariable + "=missing " + self,
	}, "\n"))
	want := "0\n" + dir + "\nb c\nx\nread-only\n/dev/ubda\n1048576\n1\nlistens\nUser-Mode-Linux guests unavailable: already in a guest\n"
	if got.err != nil || got.stdout != want || got.stderr != "" {
		t.Errorf("got %v,\n%s%s; want\n%s", got.err, got.stdout, got.stderr, want)
	}
	if text, err := os.ReadFile(filepath.Join(writable, "file")); err != nil || string(text) != "kept\n" {
		t.Errorf("file in the writable folder: %q, %v", text, err)
	}
	if text, err := os.ReadFile(disk); err != nil || !bytes.HasPrefix(text, []byte("written")) {
		t.Errorf("disk not written: %v", err)
	}
}

// listenOnLoopback is a guest's command.
func listenOnLoopback() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	fmt.Println("listens")
	return c.Close()
}

// printProbe is a guest's command.
func printProbe() error {
	_, err := fmt.Println(guest.Probe(guest.Config{}))
	return err
}

func TestKernelPanicIsReported(t *testing.T) {
	needGuests(t, guest.Config{})
	from, to := io.Pipe()
	g, err := guest.Start(t.Context(), guest.Config{Stdout: to},
		"sh", "-c", "trap 'echo c > /proc/sysrq-trigger' TERM; echo ready; while :; do sleep 0.1; done")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, from, "ready\n")
	g.Signal(unix.SIGTERM)
	var crash *guest.CrashError
	if err := g.Wait(); !errors.As(err, &crash) || !strings.Contains(crash.Console, "Kernel panic") {
		t.Errorf("got %v, want a CrashError with the kernel's panic", err)
	}
}

// TestKilledKernelIsReported kills the kernel's first process, which leaves its other processes running.
func TestKilledKernelIsReported(t *testing.T) {
	needGuests(t, guest.Config{})
	from, to := io.Pipe()
	g, err := guest.Start(t.Context(), guest.Config{Stdout: to}, "sh", "-c", "echo ready; sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, from, "ready\n")
	if err := unix.Kill(kernelOf(t, processes(t, os.Getenv("TMPDIR"))), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var crash *guest.CrashError
	if err := g.Wait(); !errors.As(err, &crash) || !strings.HasSuffix(crash.Console, "linux.uml: signal: killed") {
		t.Errorf("got %v, want a CrashError with the signal", err)
	}
}

// kernelOf returns the first process of a guest's kernel, a child of the supervisor.
func kernelOf(t *testing.T, pids []int) int {
	t.Helper()
	parents := map[int]int{}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // a process of a program that has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		var state string
		var parent int
		if _, err := fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &parent); err != nil {
			t.Fatal(err)
		}
		parents[pid] = parent
	}
	for pid, supervisor := range parents {
		if root, ok := parents[supervisor]; ok && parents[root] == 0 {
			return pid
		}
	}
	t.Fatalf("no kernel among %v", parents)
	return 0
}

func TestKernelThatDoesNotBoot(t *testing.T) {
	for _, c := range []struct {
		name, script string
		limit        time.Duration
		reason       string
		console      string
	}{
		{"hangs", "sleep 1000", time.Second / 2, "did not report in time", "kernel: signal: killed"},
		{"ends", "echo no memory; exit 7", 0, "kernel exited", "no memory\nkernel: exit status 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kernel := filepath.Join(t.TempDir(), "kernel")
			if err := os.WriteFile(kernel, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			config := guest.Config{Kernel: kernel, BootTimeout: c.limit}
			needGuests(t, config)
			got := run(t, config, "true")
			var crash *guest.CrashError
			if !errors.As(got.err, &crash) || !strings.Contains(crash.Reason, c.reason) || crash.Console != c.console {
				t.Errorf("got %v, want a CrashError: %s, and %q", got.err, c.reason, c.console)
			}
		})
	}
}

func TestStartRejectsInvalidConfigs(t *testing.T) {
	needGuests(t, guest.Config{})
	for _, c := range []struct {
		name   string
		config guest.Config
		want   string
	}{
		{"no kernel", guest.Config{Kernel: "/no/such/kernel"}, "install the package user-mode-linux"},
		{"too many disks", guest.Config{Disks: make([]string, 9)}, "at most 8"},
		{"little memory", guest.Config{Memory: 1 << 20}, "at least"},
		{"no such module", guest.Config{Modules: []string{"dm-nothing"}}, `no module "dm-nothing"`},
		{"no such folder", guest.Config{Writable: []string{"/no/such/folder"}}, "/no/such/folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := run(t, c.config, "true"); got.err == nil || !strings.Contains(got.err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", got.err, c.want)
			}
		})
	}
	if err := guest.Probe(guest.Config{Kernel: "/no/such/kernel"}); !errors.Is(err, guest.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

// TestGuestEndsWithItsStarter kills the process that started a guest, so that it cannot clean up.
func TestGuestEndsWithItsStarter(t *testing.T) {
	needGuests(t, guest.Config{})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	starter := exec.Command(self)
	starter.Env = append(os.Environ(), roleVariable+"=start")
	output, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	starter.Stderr = os.Stderr
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, output, "ready\n")
	pids := processes(t, os.Getenv("TMPDIR"))
	if len(pids) == 0 {
		t.Fatal("no process of the guest")
	}
	var gone []unix.PollFd
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue // a process of a program that has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		gone = append(gone, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := starter.Wait(); err == nil {
		t.Fatal("the starter was not killed")
	}
	for i := range gone {
		if n, err := unix.Poll(gone[i:i+1], int(patience.Milliseconds())); n != 1 {
			t.Errorf("one of the processes %d of the guest still runs (%v)", pids, err)
		}
	}
}

// startAndStay starts a guest that does not end.
func startAndStay() error {
	return guest.Run(context.Background(), guest.Config{}, "sh", "-c", "echo ready; sleep 1000")
}

// TestPowerFailure checks that data written to a disk survives, that unwritten data does not, and that the file system
// recovers from its journal.
func TestPowerFailure(t *testing.T) {
	needGuests(t, guest.Config{})
	disk := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 64<<20)); err != nil {
		t.Fatal(err)
	}
	config := guest.Config{Disks: []string{disk}}
	from, to := io.Pipe()
	config.Stdout = to
	g, err := guest.Start(t.Context(), config, "sh", "-c", `
		mkfs.ext4 -q $GUEST_DISKS && mkdir $TMPDIR/m && mount $GUEST_DISKS $TMPDIR/m && cd $TMPDIR/m &&
		echo kept > synced && sync synced && sync . && echo lost > cached && echo ready
		sleep 1000`)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, from, "ready\n")
	g.Kill()
	if err := g.Wait(); !errors.Is(err, guest.ErrKilled) {
		t.Fatalf("got %v, want %v", err, guest.ErrKilled)
	}
	got := run(t, config, `mkdir $TMPDIR/m; mount $GUEST_DISKS $TMPDIR/m && cd $TMPDIR/m && ls && cat synced`)
	if want := "lost+found\nsynced\nkept\n"; got.err != nil || got.stdout != want {
		t.Errorf("after the power failure: %v, %q%s; want %q", got.err, got.stdout, got.stderr, want)
	}
	// The second guest ended normally and unmounted its file system.
	if got := run(t, config, "dumpe2fs -h $GUEST_DISKS 2>/dev/null | grep -c needs_recovery"); got.stdout != "0\n" {
		t.Errorf("file system not unmounted: %q %v", got.stdout, got.err)
	}
}
