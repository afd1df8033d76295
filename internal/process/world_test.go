//go:build linux && (amd64 || arm64)

package process_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/process"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/sim"
)

// A world is a node whose containers are processes of this machine.
type world struct {
	host    sim.Host
	process *sim.Process
	root    string // the node's directory, with the volumes a and b, and a secret
	pod     types.UID
	runtime *process.Runtime
}

func newWorld(t testing.TB) *world {
	t.Helper()
	if err := process.Check(); err != nil {
		t.Skip(err)
	}
	host := sim.NewLive(sim.LiveConfig{})
	w := &world{host: host, process: host.Process("containers"), root: t.TempDir(), pod: "pod"}
	w.makeVolumes(t)
	testcheck.NoError(t, w.process.SetUp(func() (err error) {
		w.runtime, err = process.New(process.Config{Process: w.process, Root: w.root, LogBytes: 1 << 20})
		return err
	}))
	t.Cleanup(func() {
		host.Close()
		w.runtime.Close()
	})
	host.Start()
	return w
}

// part returns a part of the world, with a pod and volumes of its own.
func (w *world) part(t testing.TB, name string) *world {
	t.Helper()
	made := *w
	made.root, made.pod = w.path(name), types.UID(name)
	testcheck.NoError(t, os.Mkdir(made.root, 0o755))
	made.makeVolumes(t)
	return &made
}

func (w *world) makeVolumes(t testing.TB) {
	t.Helper()
	for _, dir := range []string{"a", "b", "secret"} {
		testcheck.NoError(t, os.Mkdir(w.path(dir), 0o755))
	}
	testcheck.NoError(t, os.WriteFile(w.path("secret/key"), []byte("secret\n"), 0o600))
}

// path returns the path of a file of the node on this machine.
func (w *world) path(name string) string { return filepath.Join(w.root, name) }

func (w *world) wait(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	testcheck.NoError(t, w.host.Wait(ctx, what, cond))
}

// spec returns the specification of a run with two volumes: /a is writable, /ro is read-only.
func (w *world) spec(name string, args ...string) container.Spec {
	return container.Spec{
		Run: container.Run{Pod: w.pod, Container: name}, Hostname: "web-0", Args: args,
		Mounts: []container.Mount{
			{Path: "/a", Source: w.path("a")},
			{Path: "/a/nested", Source: w.path("b")},
			{Path: "/ro", Source: w.path("b"), ReadOnly: true},
		},
	}
}

// shell returns the specification of a run that executes a script.
func (w *world) shell(script string) container.Spec { return w.spec("main", "sh", "-c", script) }

// A result is what a command prints, and its exit code.
type result struct {
	Stdout, Stderr string
	Code           int32
}

func ok(stdout string) result { return result{Stdout: stdout} }

// finish starts a run and waits for its end.
func (w *world) finish(t testing.TB, s container.Spec) result {
	t.Helper()
	w.runtime.Start(s)
	w.ended(t, s.Run)
	stdout, stderr := texts(w.runtime.Log(s.Run))
	state := w.runtime.State(s.Run)
	if state.Message != "" {
		stderr += state.Message
	}
	return result{stdout, stderr, state.Code}
}

func (w *world) ended(t testing.TB, run container.Run) {
	t.Helper()
	w.wait(t, "end of the run", func() bool { return w.runtime.State(run).Exited })
}

// texts returns the two streams of an output.
func texts(o *container.Output) (stdout, stderr string) {
	entries, _, _, _ := o.Read(0)
	for _, e := range entries {
		if e.Stream == container.Stdout {
			stdout += string(e.Text)
		} else {
			stderr += string(e.Text)
		}
	}
	return stdout, stderr
}

// begin starts a run, and waits until it has printed "up".
func (w *world) begin(t testing.TB, s container.Spec) {
	t.Helper()
	w.runtime.Start(s)
	await(t, w.runtime.Log(s.Run), "up\n")
}

// await waits until an output has a text.
func await(t testing.TB, output *container.Output, text string) {
	t.Helper()
	for {
		_, _, ended, changed := output.Read(0)
		if strings.Contains(output.Text(""), text) {
			return
		}
		if ended {
			t.Fatalf("the output has no %q: %q", text, output.Text(""))
		}
		<-changed
	}
}

// execute runs a command in a container, and returns the result.
func (w *world) execute(t testing.TB, run container.Run, stdin string, args ...string) result {
	t.Helper()
	input, output := container.NewInput(), container.NewOutput(0)
	e := testcheck.Must(w.runtime.Exec(run, args, container.Streams{Stdin: input, Output: output}))
	testcheck.Must(input.Write([]byte(stdin)))
	testcheck.NoError(t, input.Close())
	<-e.Done
	stdout, stderr := texts(output)
	return result{stdout, stderr, e.Code()}
}
