//go:build linux && (amd64 || arm64)

package process_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
)

// exitKilled is the exit code after KILL.
const exitKilled = 137

func TestCommands(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		name, script string
		want         result
	}{
		{"output", "echo out; echo err >&2; exit 3", result{"out\n", "err\n", 3}},
		{"process 1", "kill -9 $$; kill -TERM $$; echo alive $$", ok("alive 1\n")},
		{"identity", "hostname; id -u; pwd", ok("web-0\n0\n/\n")},
		{"volume", "echo x >/a/f; echo y >/a/nested/f; cat /a/f /ro/f", ok("x\ny\n")},
		{"read-only volume", "echo x >/ro/f", result{"", "sh: can't create /ro/f: Read-only file system\n", 1}},
		{"stdin", "cat; echo end", ok("end\n")},
		{"devices", "ls /dev; echo x >/dev/null; head -c 2 /dev/zero | od -An -tx1", ok("fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n 00 00\n")},
		{"standard streams", "echo out >/dev/stdout; echo err >/dev/stderr", result{"out\n", "err\n", 0}},
		{"log of process 1", "sh -c 'echo out >/proc/1/fd/1'", ok("out\n")},
		{"loopback", "ping -c 1 127.0.0.1 2>&1 | grep -c 'ermission denied'; ifconfig lo | grep -c UP", ok("1\n1\n")},
		{"environment", "env | sort", ok("HOME=/root\nHOSTNAME=web-0\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nPWD=/\nSHLVL=1\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := w.shell(c.script)
			s.Restarts = int32(i) //nolint:gosec // a count
			got := w.finish(t, s)
			if c.name == "environment" { // busybox sets these two
				got.Stdout = strings.ReplaceAll(got.Stdout, "PWD=/\nSHLVL=1\n", "") + "PWD=/\nSHLVL=1\n"
			}
			testcheck.Equal(t, "result", c.want, got)
		})
	}
}

func TestCannotStart(t *testing.T) {
	w := newWorld(t)
	testcheck.NoError(t, os.WriteFile(w.path("a/text"), nil, 0o600))
	for i, c := range []struct{ name, command, message string }{
		{"unknown", "foo", `exec: "foo": executable file not found in $PATH`},
		{"unknown path", "/a/foo", `exec: "/a/foo": stat /a/foo: no such file or directory`},
		{"text", "/a/text", `exec: "/a/text": permission denied`},
		{"empty", "", `exec: "": executable file not found in $PATH`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := w.spec("main", c.command)
			s.Restarts = int32(i) //nolint:gosec // a count
			testcheck.Equal(t, "result", result{"", c.message, 128}, w.finish(t, s))
		})
	}
}

func TestMountPointsAreRefused(t *testing.T) {
	w := newWorld(t)
	for i, path := range []string{"/", "/proc", "/proc/sys", "/.init"} {
		s := w.spec("main", "true")
		s.Restarts, s.Mounts = int32(i), []container.Mount{{Path: path, Source: w.path("a")}} //nolint:gosec // a count
		got := w.finish(t, s)
		if got.Code != 128 || !strings.Contains(got.Stderr, "nothing can be mounted at") {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestWorkingDirectoryAndEnvironment(t *testing.T) {
	w := newWorld(t)
	s := w.shell("pwd; echo $X $Y; my")
	s.WorkingDir, s.Env = "/a/deep/dir", []string{"X=1", "Y=2", "X=3", "PATH=/bin:/a"}
	testcheck.NoError(t, os.WriteFile(w.path("a/my"), []byte("#!/bin/sh\necho mine\n"), 0o700))
	testcheck.Equal(t, "result", ok("/a/deep/dir\n3 2\nmine\n"), w.finish(t, s))
}

func TestUser(t *testing.T) {
	w := newWorld(t)
	testcheck.NoError(t, os.Chown(w.path("a"), 0, 3000), os.Chmod(w.path("a"), 0o770|os.ModeSetgid))
	script := "id -u; id -g; id -G; echo $HOME; echo x >/a/f && stat -c %u:%g /a/f; echo out >/dev/stdout; grep -E 'Cap(Prm|Eff)' /proc/self/status | cut -f 2 | uniq; echo x >/etc/f"
	s := w.shell("echo up; " + script)
	s.User, s.Group, s.Groups = 1000, 2000, []int64{3000}
	want := result{"1000\n2000\n2000 3000\n/\n1000:3000\nout\n0000000000000000\n", "sh: can't create /etc/f: Permission denied\n", 1}
	run := want
	run.Stdout = "up\n" + run.Stdout
	testcheck.Equal(t, "run", run, w.finish(t, s))
	s.Restarts, s.Args = 1, []string{"sh", "-c", "echo up; sleep 1d"}
	w.begin(t, s)
	testcheck.Equal(t, "execution", want, w.execute(t, s.Run, "", "sh", "-c", script))
}

func TestReadOnlyRoot(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo x >/tmp/f; echo y >/a/f; cat /a/f")
	s.ReadOnly = true
	testcheck.Equal(t, "result", result{"y\n", "sh: can't create /tmp/f: Read-only file system\n", 0}, w.finish(t, s))
}

func TestStop(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		name, script string
		code         int32
	}{
		{"no trap", "echo up; sleep 3600; echo more", exitKilled},
		{"trap and wait", "trap 'exit 4' TERM; sleep 3600 & echo up; wait", 4},
		{"endless loop", "echo up; while :; do :; done", exitKilled},
		{"endless loop with a trap", "trap 'exit 5' 15; echo up; while :; do :; done", 5},
		{"children ignore TERM", "trap '' TERM; (while :; do sleep 1; done) & echo up; wait", exitKilled},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := w.shell(c.script)
			s.Restarts = int32(i) //nolint:gosec // a count
			w.begin(t, s)
			grace := 200 * time.Millisecond
			if c.code != exitKilled {
				grace = time.Hour
			}
			w.runtime.Stop(s.Run, grace)
			w.ended(t, s.Run)
			state := w.runtime.State(s.Run)
			testcheck.Equal(t, "exit code", c.code, state.Code)
			if passed := state.FinishedAt.Sub(state.StartedAt); c.code == exitKilled && passed < grace {
				t.Errorf("killed after %v", passed)
			}
		})
	}
}

func TestStopWithoutCommand(t *testing.T) {
	w := newWorld(t)
	s := w.spec("main")
	w.runtime.Start(s)
	w.runtime.Stop(s.Run, time.Hour)
	w.ended(t, s.Run)
	testcheck.Equal(t, "exit code", 0, w.runtime.State(s.Run).Code)
}

func TestStopAgainShortensTheGrace(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo up; sleep 1d")
	w.begin(t, s)
	w.runtime.Stop(s.Run, time.Hour)
	w.runtime.Stop(s.Run, time.Millisecond)
	w.runtime.Stop(s.Run, time.Hour)
	w.ended(t, s.Run)
	testcheck.Equal(t, "exit code", exitKilled, w.runtime.State(s.Run).Code)
}

// TestOldRunsAreForgotten: the last two runs of a container are kept, with their logs. Each has a new root directory.
func TestOldRunsAreForgotten(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo x >>/root/f; cat /root/f")
	for s.Restarts = range 4 {
		testcheck.Equal(t, "result", ok("x\n"), w.finish(t, s))
		w.runtime.Start(s) // a run is started once
	}
	previous := s.Run
	previous.Restarts--
	testcheck.Equal(t, "runs", []container.Run{previous, s.Run}, w.runtime.Runs("pod"))
	stdout, _ := texts(w.runtime.Log(previous))
	testcheck.Equal(t, "log", "x\n", stdout)
}

// TestRemove checks that nothing is left of a run.
func TestRemove(t *testing.T) {
	w := newWorld(t)
	before := w.machineState(t)
	s := w.shell("sleep 1d & echo up; sleep 1d")
	w.begin(t, s)
	e := testcheck.Must(w.runtime.Exec(s.Run, []string{"sleep", "1d"}, container.Streams{}))
	w.runtime.Remove("pod")
	testcheck.Equal(t, "runs", 0, len(w.runtime.Runs("pod")))
	<-e.Done
	w.runtime.Close()
	testcheck.Equal(t, "code", exitKilled, e.Code())
	testcheck.Equal(t, "state of the machine", before, w.machineState(t))
}

// TestDescriptorsAreClosed runs containers, executions and what fails.
func TestDescriptorsAreClosed(t *testing.T) {
	w := newWorld(t)
	count := func() int { return len(testcheck.Must(os.ReadDir("/proc/self/fd"))) }
	use := func(restarts int32) {
		s := w.shell("echo up; sleep 1d")
		s.Restarts = restarts
		w.begin(t, s)
		w.execute(t, s.Run, "in", "cat")
		w.execute(t, s.Run, "", "foo")
		for _, command := range []string{"true", "foo"} {
			e := testcheck.Must(w.runtime.Exec(s.Run, []string{command}, container.Streams{Stdin: container.NewInput(), TTY: true}))
			<-e.Done
		}
		w.runtime.Stop(s.Run, 0)
		w.ended(t, s.Run)
		failing := s
		failing.Container, failing.Mounts = "failing", []container.Mount{{Path: "/ok", Source: w.path("a")}, {Path: "/x", Source: "/etc"}}
		w.finish(t, failing)
		failing.Container, failing.Mounts, failing.Args = "unknown", s.Mounts, []string{"foo"}
		w.finish(t, failing)
	}
	use(0)
	before := count()
	for i := range int32(10) {
		use(i + 1)
	}
	if after := count(); after > before+5 { // the feed of an execution may close its descriptor a little later
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// mounts returns the mounts of the machine, without those of other programs below /tmp.
func (w *world) mounts(t *testing.T) []string {
	t.Helper()
	var mounts []string
	for line := range strings.Lines(string(testcheck.Must(os.ReadFile("/proc/self/mountinfo")))) {
		if !strings.Contains(line, " /tmp/") || strings.Contains(line, w.root) {
			mounts = append(mounts, line)
		}
	}
	return mounts
}

// machineState returns the mounts of the machine, and the cgroups and child processes of this program.
func (w *world) machineState(t *testing.T) []string {
	t.Helper()
	state := w.mounts(t)
	prefix := fmt.Sprintf("volsim-%d-", os.Getpid())
	_ = filepath.WalkDir("/sys/fs/cgroup", func(name string, d fs.DirEntry, _ error) error { // groups of others may vanish meanwhile
		if d.IsDir() && strings.HasPrefix(d.Name(), prefix) {
			entries := testcheck.Must(os.ReadDir(name))
			for _, e := range entries {
				if e.IsDir() {
					state = append(state, filepath.Join(name, e.Name()))
				}
			}
		}
		return nil
	})
	tasks := testcheck.Must(filepath.Glob("/proc/self/task/*/children"))
	for _, task := range tasks {
		if children, err := os.ReadFile(task); err == nil && len(children) > 0 {
			state = append(state, "children "+string(children))
		}
	}
	return state
}

func TestCrash(t *testing.T) {
	w := newWorld(t)
	observed := make(chan types.UID, 10)
	s := w.shell("echo up; yes | cat >/dev/null")
	w.begin(t, s)
	e := testcheck.Must(w.runtime.Exec(s.Run, []string{"sleep", "1d"}, container.Streams{}))
	w.runtime.Observe(func(pod types.UID) { observed <- pod })
	w.host.Crash(w.process)
	testcheck.Equal(t, "code", exitKilled, w.runtime.State(s.Run).Code)
	testcheck.Equal(t, "execution has ended", true, e.Ended())
	testcheck.Equal(t, "observations", 1, len(observed))
	w.runtime.Start(w.spec("other", "true"))
	testcheck.Equal(t, "runs", 1, len(w.runtime.Runs("pod")))
}

func TestExec(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo up; sleep 1d")
	w.begin(t, s)
	testcheck.Equal(t, "cat", result{Stdout: "in\n"}, w.execute(t, s.Run, "in\n", "cat"))
	testcheck.Equal(t, "code", result{"", "e\n", 3}, w.execute(t, s.Run, "", "sh", "-c", "echo e >&2; exit 3"))
	testcheck.Equal(t, "TERM", result{Code: 143}, w.execute(t, s.Run, "", "sh", "-c", "kill $$; echo no"))
	testcheck.Equal(t, "background", result{Stdout: "1\n"}, w.execute(t, s.Run, "", "sh", "-c", "sleep 1d & echo 1"))
	unknown := w.execute(t, s.Run, "", "foo")
	testcheck.Equal(t, "code of an unknown command", 127, unknown.Code)
	if !strings.Contains(unknown.Stderr, `exec: "foo": executable file not found in $PATH`) {
		t.Errorf("unknown command: %q", unknown.Stderr)
	}
}

// TestExecReadsMuch copies more than a pipe holds, in both directions.
func TestExecReadsMuch(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo up; sleep 1d")
	w.begin(t, s)
	text := strings.Repeat("0123456789abcde\n", 1<<16)
	got := w.execute(t, s.Run, text, "cat")
	testcheck.Equal(t, "output is input", true, got.Stdout == text)
	testcheck.Equal(t, "code of a command that reads nothing", 0, w.execute(t, s.Run, text, "true").Code)
}

// TestExecWaitsForItsReader: a command that writes without end holds no more than the window.
func TestExecWaitsForItsReader(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo up; sleep 1d")
	w.begin(t, s)
	out := container.NewOutput(0)
	out.SetWindow(1 << 12)
	e := testcheck.Must(w.runtime.Exec(s.Run, []string{"yes"}, container.Streams{Output: out}))
	read := 0
	for position := 0; read < 1<<18; {
		entries, next, _, changed := out.Read(position)
		if len(entries) == 0 {
			<-changed
			continue
		}
		size := 0
		for _, entry := range entries {
			size += len(entry.Text)
		}
		if size > 1<<16 {
			t.Fatalf("%d bytes are held", size)
		}
		read, position = read+size, next
		out.Discard(next)
	}
	e.Kill()
	<-e.Done
	testcheck.Equal(t, "code", exitKilled, e.Code())
}

func TestExecEndsWithItsClientAndItsContainer(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo up; sleep 1d")
	w.begin(t, s)
	first := testcheck.Must(w.runtime.Exec(s.Run, []string{"sh", "-c", "sleep 1d; true"}, container.Streams{}))
	first.Kill()
	<-first.Done
	testcheck.Equal(t, "code", exitKilled, first.Code())
	second := testcheck.Must(w.runtime.Exec(s.Run, []string{"sleep", "1d"}, container.Streams{}))
	w.runtime.Stop(s.Run, 0)
	<-second.Done
	testcheck.Equal(t, "code", exitKilled, second.Code())
	w.ended(t, s.Run)
	if _, err := w.runtime.Exec(s.Run, []string{"true"}, container.Streams{}); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("exec in a container that has exited: %v", err)
	}
}

// TestTerminal types into a shell.
func TestTerminal(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo up; sleep 1d")
	w.begin(t, s)
	input, output := container.NewInput(), container.NewOutput(0)
	e := testcheck.Must(w.runtime.Exec(s.Run, []string{"sh", "-c", "tty; stty size; echo err >&2; read x; echo got $x; cat; exit 3"},
		container.Streams{Stdin: input, Output: output, TTY: true}))
	testcheck.Must(input.Write([]byte("hello\nmore\n\x04")))
	<-e.Done
	stdout, stderr := texts(output)
	testcheck.Equal(t, "code", 3, e.Code())
	testcheck.Equal(t, "stderr", "", stderr)
	for _, line := range []string{"/dev/pts/0", "24 80", "err", "got hello", "more"} {
		if !slices.Contains(strings.Split(stdout, "\r\n"), line) {
			t.Errorf("no line %q in %q", line, stdout)
		}
	}
	missing := container.NewOutput(0)
	<-testcheck.Must(w.runtime.Exec(s.Run, []string{"foo"}, container.Streams{Output: missing, TTY: true})).Done
	if text, _ := texts(missing); !strings.Contains(text, "executable file not found") {
		t.Errorf("unknown command: %q", text)
	}
}

// TestTerminalInterrupts: ^C is a signal.
func TestTerminalInterrupts(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo up; sleep 1d")
	w.begin(t, s)
	input, output := container.NewInput(), container.NewOutput(0)
	e := testcheck.Must(w.runtime.Exec(s.Run, []string{"sh", "-c", "trap 'exit 7' INT; echo ready; sleep 1d & wait"},
		container.Streams{Stdin: input, Output: output, TTY: true}))
	await(t, output, "ready")
	testcheck.Must(input.Write([]byte("\x03")))
	<-e.Done
	testcheck.Equal(t, "code", 7, e.Code())
}

func BenchmarkStart(b *testing.B) {
	w := newWorld(b)
	for i := range b.N {
		s := w.spec("main", "true")
		s.Restarts = int32(i) //nolint:gosec // a count
		w.finish(b, s)
	}
}

func BenchmarkExec(b *testing.B) {
	w := newWorld(b)
	s := w.shell("echo up; sleep 1d")
	w.begin(b, s)
	for range b.N {
		w.execute(b, s.Run, "", "true")
	}
}
