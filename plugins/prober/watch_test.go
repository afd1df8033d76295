package prober_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/prober"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var pause = trace.Action{Kind: trace.KindWork, Verb: "pause"}

func nothing() trace.Outcome { return trace.Outcome{} }

// machine is a directory of this machine that is watched on a live host.
type machine struct {
	*testworld.Runner[*sim.Live]
	dir     string
	manager plugins.Manager
	release chan struct{} // closed: v/hangs answers
}

func newMachine(t *testing.T) *machine {
	root := t.TempDir()
	disk, err := nodefs.NewReal(root)
	if err != nil {
		t.Skipf("no disk of this machine: %v", err)
	}
	m := &machine{
		Runner: testworld.NewRunner(t, sim.NewLive(sim.LiveConfig{})), dir: filepath.Join(root, "drivers"),
		release: make(chan struct{}),
	}
	c := m.Host.Process("controller")
	drivers := prober.New(prober.Config{
		Process: c, Manager: &m.manager, FS: disk, Dir: m.dir,
		New: func(ctx context.Context, program, name string) (plugins.Plugin, error) {
			out := c.Call(trace.Action{Kind: trace.KindDriver, Verb: "init", Object: name}, func() trace.Outcome {
				if name == "v/hangs" {
					select {
					case <-m.release:
					case <-ctx.Done():
					}
				}
				return trace.Outcome{Err: ctx.Err()}
			})
			return &driver{name: name, program: program}, out.Err
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- drivers.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-watched; err != nil {
			t.Errorf("watch: %v", err)
		}
	})
	m.Host.Start()
	return m
}

// until waits until a plugin of that name exists, or does not.
func (m *machine) until(name string, there bool) {
	m.Helper()
	m.Until(name, func() bool {
		_, err := m.manager.FindByName(name)
		return (err == nil) == there
	})
}

func (m *machine) install(driver, program string) {
	m.Helper()
	path := filepath.Join(m.dir, driver)
	m.NoError(os.MkdirAll(path, 0o755))
	m.NoError(os.WriteFile(filepath.Join(path, program), []byte("#!/bin/sh\n"), 0o755))
}

func (m *machine) remove(path string) {
	m.Helper()
	m.NoError(os.RemoveAll(filepath.Join(m.dir, path)))
}

// TestWatch adds and removes drivers on this machine while another one hangs.
func TestWatch(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install("v~hangs", "hangs")
	m.install("v~a", "a")
	m.until("v/a", true)
	m.install("v~b", "b")
	m.until("v/b", true)
	m.remove("v~a/a")
	m.until("v/a", false)
	m.install("v~a", "a")
	m.until("v/a", true)
	m.remove("v~b")
	m.until("v/b", false)
	if _, err := m.manager.FindByName("v/hangs"); err == nil {
		t.Error("a driver that hangs was found")
	}
	close(m.release)
	m.until("v/hangs", true)
	m.remove("") // the directory itself, which is made again
	m.until("v/a", false)
	m.until("v/hangs", false)
	m.install("v~a", "a")
	m.until("v/a", true)
}

// TestWatchFailsForFile watches a file instead of a directory.
func TestWatchFailsForFile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	disk, err := nodefs.NewReal(root)
	if err != nil {
		t.Skipf("no disk of this machine: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "drivers"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	drivers := prober.New(prober.Config{Process: host.Process("c"), FS: disk, Dir: filepath.Join(root, "drivers")})
	if err := drivers.Watch(t.Context()); err == nil {
		t.Error("no error")
	}
}
