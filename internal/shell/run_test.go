package shell_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/sim"
)

// exitKilled is the exit code after KILL.
const exitKilled = 137

func TestStop(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int32
	}{
		{"no trap", []string{"sh", "-c", "echo up; sleep 3600; echo more"}, exitKilled},
		{"trap", []string{"sh", "-c", "trap 'exit 3' TERM; echo up; sleep 3600"}, 3},
		{"trap and wait", []string{"sh", "-c", "trap 'exit 4' TERM; sleep 3600 & echo up; wait"}, 4},
		{"endless loop", []string{"sh", "-c", "echo up; while :; do :; done"}, exitKilled},
		{"endless device", []string{"sh", "-c", "echo up; sha256sum /dev/zero"}, exitKilled},
		{"endless loop with a trap", []string{"sh", "-c", "trap 'exit 5' 15; echo up; while :; do :; done"}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			onHosts(t, func(t *testing.T, w *world) {
				s := spec("main", c.args...)
				w.runtime.Start(s)
				w.printed(t, s.Run, "up\n")
				w.runtime.Stop(s.Run, 2*time.Second)
				w.ended(t, s.Run)
				testcheck.Equal(t, "exit code", c.code, w.runtime.State(s.Run).Code)
			})
		})
	}
}

func TestStopWithoutCommand(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		s := spec("main")
		w.runtime.Start(s)
		w.runtime.Stop(s.Run, time.Minute)
		w.ended(t, s.Run)
		testcheck.Equal(t, "exit code", 0, w.runtime.State(s.Run).Code)
	})
}

func TestStopAgainShortensTheGrace(t *testing.T) {
	w := newWorld(t, sim.NewStepped(sim.SteppedConfig{}))
	s := spec("main", "sleep", "1d")
	w.runtime.Start(s)
	w.runtime.Stop(s.Run, time.Hour)
	w.runtime.Stop(s.Run, time.Second)
	w.runtime.Stop(s.Run, time.Hour)
	w.ended(t, s.Run)
	state := w.runtime.State(s.Run)
	testcheck.Equal(t, "exit code", exitKilled, state.Code)
	testcheck.Equal(t, "time of the run", time.Second, state.FinishedAt.Sub(state.StartedAt))
}

func TestCannotStart(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		_, _, state := w.finish(t, spec("main", "foo"))
		testcheck.Equal(t, "exit code", 128, state.Code)
		testcheck.Equal(t, "message", `exec: "foo": executable file not found in $PATH`, state.Message)
	})
}

func TestStartTwiceRunsOnce(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		s := spec("main", "sh", "-c", "echo x >>/a/f; echo x >>/root/f; cat /root/f")
		w.finish(t, s)
		w.runtime.Start(s)
		s.Restarts = 1
		stdout, _, _ := w.finish(t, s) // with a new root directory
		testcheck.Equal(t, "output", "x\n", stdout)
		testcheck.Equal(t, "file", "x\nx\n", string(testcheck.Must(w.disk.ReadFile("/node/a/f"))))
	})
}

// TestOldRunsAreForgotten: the last two runs of a container are kept, with their logs.
func TestOldRunsAreForgotten(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		s, other := spec("main", "echo", "done"), spec("other", "true")
		w.finish(t, other)
		for s.Restarts = range 4 {
			w.finish(t, s)
		}
		previous := s.Run
		previous.Restarts--
		testcheck.Equal(t, "runs", []container.Run{previous, s.Run, other.Run}, w.runtime.Runs("pod"))
		stdout, _ := texts(w.runtime.Log(previous))
		testcheck.Equal(t, "log", "done\n", stdout)
	})
}

func TestContainersShareAVolume(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		reader := spec("reader", "sh", "-c", "until [ -s /a/f ]; do sleep 1; done; cat /a/f")
		w.runtime.Start(reader)
		w.finish(t, spec("writer", "sh", "-c", "sleep 2; echo data >/a/f"))
		w.ended(t, reader.Run)
		stdout, _ := texts(w.runtime.Log(reader.Run))
		testcheck.Equal(t, "output", "data\n", stdout)
	})
}

// TestAppendsAreKept has two containers append to one file.
func TestAppendsAreKept(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		script := "i=0; while [ $i -lt 50 ]; do echo x >>/a/f; i=$((i+1)); done"
		one, two := spec("one", "sh", "-c", script), spec("two", "sh", "-c", script)
		w.runtime.Start(one)
		w.runtime.Start(two)
		w.ended(t, one.Run)
		w.ended(t, two.Run)
		testcheck.Equal(t, "file", strings.Repeat("x\n", 100), string(testcheck.Must(w.disk.ReadFile("/node/a/f"))))
	})
}

func TestReadOnlyRoot(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		s := spec("main", "sh", "-c", "echo x >/tmp/f; echo y >/a/f; cat /a/f")
		s.ReadOnly = true
		stdout, stderr, _ := w.finish(t, s)
		testcheck.Equal(t, "stdout", "y\n", stdout)
		testcheck.Equal(t, "stderr", "sh: can't create /tmp/f: Read-only file system\n", stderr)
	})
}

func TestLogIsBounded(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		stdout, _, _ := w.finish(t, spec("main", "sh", "-c", "yes | head -c 3000000; echo; echo end"))
		if len(stdout) > 1<<20+64<<10 || !strings.HasSuffix(stdout, "y\n\nend\n") {
			t.Errorf("the log has %d bytes and ends in %q", len(stdout), stdout[max(0, len(stdout)-10):])
		}
	})
}

// TestLimits checks that a runaway script ends itself, not the simulator.
func TestLimits(t *testing.T) {
	const noFork = "can't fork: Resource temporarily unavailable\n"
	for _, c := range []struct{ name, script, stderr string }{
		{"eval", `x='eval "$x"'; eval "$x"`, "sh: " + noFork},
		{"script", `printf '#!/bin/sh\n$0\n' >/tmp/s; chmod +x /tmp/s; /tmp/s`, "/tmp/s: " + noFork},
		{"function", `f() { f; }; f`, "sh: functions are nested too deeply\n"},
		{"jobs", `while :; do sleep 1d & done`, "sh: " + noFork},
		{"file", `printf x | dd of=/tmp/f bs=1M seek=5000 2>/tmp/e; head -n 1 /tmp/e >&2; test -s /tmp/f`, "dd: error writing '/tmp/f': File too large\n"},
		{"memory", `x=1234567890; while :; do x=$x$x; done`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			onHosts(t, func(t *testing.T, w *world) {
				_, stderr, state := w.finish(t, spec("main", "sh", "-c", c.script))
				testcheck.Equal(t, "stderr", c.stderr, stderr)
				if state.Code == 0 {
					t.Error("the script succeeded")
				}
			})
		})
	}
}

func TestBlockDevice(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		testcheck.NoError(t, w.disk.WriteFile("/node/device", nil), w.disk.MountDevice("disk", "/node/device", false))
		w.disk.SetDeviceSize("disk", 10240)
		s := spec("main", "sh", "-c", `[ -b /dev/xvda ] && blockdev --getsize64 /dev/xvda
printf written >/dev/xvda; head -c 7 /dev/xvda; echo; head -c 9 /dev/xvda | od -An
printf more | dd of=/dev/xvda bs=1 seek=4094 status=none; dd if=/dev/xvda bs=1 skip=4094 count=4 status=none; echo
dd if=/dev/zero of=/dev/xvda bs=4096 status=none; head -c 7 /dev/xvda | od -An; wc -c </dev/xvda`)
		s.Devices = []container.Device{{Path: "/dev/xvda", Source: "/node/device"}}
		stdout, stderr, _ := w.finish(t, s)
		testcheck.Equal(t, "stdout", "10240\nwritten\n 77 72 69 74 74 65 6e 00 00\nmore\n 00 00 00 00 00 00 00\n10240\n", stdout)
		testcheck.Equal(t, "stderr", "dd: error writing '/dev/xvda': No space left on device\n", stderr)
	})
}

// execute runs a command in a container, and returns the result.
func (w *world) execute(t testing.TB, run container.Run, stdin string, args ...string) result {
	t.Helper()
	input, output := container.NewInput(), container.NewOutput(0)
	e := testcheck.Must(w.runtime.Exec(run, args, container.Streams{Stdin: input, Output: output}))
	testcheck.Must(input.Write([]byte(stdin)))
	testcheck.NoError(t, input.Close())
	w.wait(t, "end of the execution", func() bool { return isClosed(e.Done) })
	stdout, stderr := texts(output)
	return result{stdout, stderr, e.Code()}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func TestExec(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		s := spec("main", "sleep", "1d")
		w.runtime.Start(s)
		testcheck.Equal(t, "cat", result{Stdout: "in\n"}, w.execute(t, s.Run, "in\n", "cat"))
		testcheck.Equal(t, "code", result{"", "e\n", 3}, w.execute(t, s.Run, "", "sh", "-c", "echo e >&2; exit 3"))
		testcheck.Equal(t, "TERM", result{Code: 143}, w.execute(t, s.Run, "", "sh", "-c", "kill $$; echo no"))
		unknown := w.execute(t, s.Run, "", "foo")
		testcheck.Equal(t, "code of an unknown command", 127, unknown.Code)
		if !strings.Contains(unknown.Stderr, `exec: "foo": executable file not found in $PATH`) {
			t.Errorf("unknown command: %q", unknown.Stderr)
		}
	})
}

// TestExecDuringStart executes commands in runs that are being started by another goroutine.
func TestExecDuringStart(t *testing.T) {
	w := newWorld(t, hosts["live"]())
	for i := range 500 {
		s := spec(strconv.Itoa(i))
		go w.runtime.Start(s)
		var e *container.Execution
		for err := container.ErrNotRunning; err != nil; {
			e, err = w.runtime.Exec(s.Run, []string{"true"}, container.Streams{})
		}
		w.wait(t, "end of the command", func() bool { return isClosed(e.Done) })
		testcheck.Equal(t, "code", int32(0), e.Code())
	}
}

// TestExecWaitsForItsReader: a command that writes without end holds no more than the window.
func TestExecWaitsForItsReader(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		s := spec("main", "sleep", "1d")
		w.runtime.Start(s)
		out := container.NewOutput(0)
		out.SetWindow(1 << 12)
		e := testcheck.Must(w.runtime.Exec(s.Run, []string{"yes"}, container.Streams{Output: out}))
		read := 0
		for position := 0; read < 1<<16; {
			w.wait(t, "a full window", out.Full)
			entries, next, _, _ := out.Read(position)
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
		w.wait(t, "the end", func() bool { return isClosed(e.Done) })
		testcheck.Equal(t, "code", exitKilled, e.Code())
	})
}

func TestExecEndsWithItsClientAndItsContainer(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		s := spec("main", "sleep", "1d")
		w.runtime.Start(s)
		first := testcheck.Must(w.runtime.Exec(s.Run, []string{"sleep", "1d"}, container.Streams{}))
		first.Kill()
		w.wait(t, "end of the first", func() bool { return isClosed(first.Done) })
		testcheck.Equal(t, "code", exitKilled, first.Code())
		second := testcheck.Must(w.runtime.Exec(s.Run, []string{"sleep", "1d"}, container.Streams{}))
		w.runtime.Stop(s.Run, 0)
		w.wait(t, "end of the second", func() bool { return isClosed(second.Done) })
		w.ended(t, s.Run)
		if _, err := w.runtime.Exec(s.Run, []string{"true"}, container.Streams{}); !errors.Is(err, container.ErrNotRunning) {
			t.Errorf("exec in a container that has exited: %v", err)
		}
	})
}

func TestRemove(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		s := spec("main", "sh", "-c", "echo up; sleep 1d")
		w.runtime.Start(s)
		w.printed(t, s.Run, "up\n")
		w.runtime.Remove("pod")
		testcheck.Equal(t, "runs", 0, len(w.runtime.Runs("pod")))
		w.wait(t, "removal of the directory", func() bool {
			exists, _ := w.disk.Exists("/node/containers/pod")
			return !exists
		})
	})
}

func TestCrash(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		observed := 0
		s := spec("main", "sh", "-c", "echo up; yes | cat >/dev/null")
		w.runtime.Start(s)
		w.printed(t, s.Run, "up\n")
		e := testcheck.Must(w.runtime.Exec(s.Run, []string{"sleep", "1d"}, container.Streams{}))
		w.runtime.Observe(func(types.UID) { observed++ })
		w.host.Crash(w.process)
		testcheck.Equal(t, "code", exitKilled, w.runtime.State(s.Run).Code)
		testcheck.Equal(t, "execution has ended", true, isClosed(e.Done))
		testcheck.Equal(t, "observations", 1, observed)
	})
}

// TestStepsAreRepeatable compares the traces of two equal worlds.
func TestStepsAreRepeatable(t *testing.T) {
	trace := func() string {
		w := newWorld(t, sim.NewStepped(sim.SteppedConfig{Chooser: sim.NewSeeded(7)}))
		w.finish(t, spec("main", "sh", "-c", "head -c 8 /dev/urandom | od -An -tx1 >/a/r; (sleep 1; ls /a) & ls / | sort; wait"))
		return w.host.Log().Text()
	}
	first := trace()
	testcheck.Equal(t, "trace", first, trace())
	if !strings.Contains(first, "create /a/r") {
		t.Errorf("the trace has no access to /a/r:\n%s", first)
	}
}

func BenchmarkStart(b *testing.B) {
	w := newWorld(b, sim.NewLive(sim.LiveConfig{}))
	for i := range b.N {
		s := spec("main", "true")
		s.Restarts = int32(i) //nolint:gosec // a count
		w.finish(b, s)
	}
}

func BenchmarkExec(b *testing.B) {
	w := newWorld(b, sim.NewLive(sim.LiveConfig{}))
	s := spec("main", "sleep", "1d")
	w.runtime.Start(s)
	for range b.N {
		w.execute(b, s.Run, "", "true")
	}
}
