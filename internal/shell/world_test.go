package shell_test

import (
	"context"
	"testing"
	"time"

	"github.com/volsim/volsim/internal/shell"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A world is a node whose containers run on one host.
type world struct {
	host    sim.Host
	process *sim.Process
	disk    *nodefs.Memory
	runtime *shell.Runtime
}

// hosts are the hosts of the tests, by name.
var hosts = map[string]func() sim.Host{
	"stepped": func() sim.Host { return sim.NewStepped(sim.SteppedConfig{}) },
	"seeded":  func() sim.Host { return sim.NewStepped(sim.SteppedConfig{Chooser: sim.NewSeeded(3)}) },
	"live":    func() sim.Host { return sim.NewLive(sim.LiveConfig{Speed: 20}) },
}

func newWorld(t testing.TB, host sim.Host) *world {
	t.Helper()
	w := &world{host: host, disk: nodefs.NewMemory("/node"), process: host.Process("containers")}
	t.Cleanup(host.Close)
	for _, dir := range []string{"/node/a", "/node/b", "/node/secret"} {
		testcheck.NoError(t, w.disk.MkdirAll(dir))
	}
	testcheck.NoError(t, w.disk.WriteFile("/node/secret/key", []byte("secret\n")))
	testcheck.NoError(t, w.process.SetUp(func() error {
		w.runtime = shell.New(shell.Config{Process: w.process, FS: w.disk, Root: "/node/containers", LogBytes: 1 << 20})
		return nil
	}))
	host.Start()
	return w
}

// onHosts runs a test on both hosts.
func onHosts(t *testing.T, f func(t *testing.T, w *world)) {
	for name, host := range hosts {
		t.Run(name, func(t *testing.T) { f(t, newWorld(t, host())) })
	}
}

func (w *world) wait(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	testcheck.NoError(t, w.host.Wait(ctx, what, cond))
}

// spec returns the specification of a run with two volumes: /a is writable, /ro is read-only.
func spec(name string, args ...string) container.Spec {
	return container.Spec{
		Run: container.Run{Pod: "pod", Container: name}, Hostname: "web-0", Args: args,
		Mounts: []container.Mount{
			{Path: "/a", Source: "/node/a"},
			{Path: "/a/nested", Source: "/node/b"},
			{Path: "/ro", Source: "/node/b", ReadOnly: true},
		},
	}
}

// finish starts a run and waits for its end.
func (w *world) finish(t testing.TB, s container.Spec) (stdout, stderr string, state container.State) {
	t.Helper()
	w.runtime.Start(s)
	w.ended(t, s.Run)
	stdout, stderr = texts(w.runtime.Log(s.Run))
	return stdout, stderr, w.runtime.State(s.Run)
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

// printed waits until a run has printed a text.
func (w *world) printed(t testing.TB, run container.Run, text string) {
	t.Helper()
	w.wait(t, "output "+text, func() bool {
		stdout, _ := texts(w.runtime.Log(run))
		return stdout == text
	})
}
