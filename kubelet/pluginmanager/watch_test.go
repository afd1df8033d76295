package pluginmanager_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sidecars/registrar"
	"github.com/volsim/volsim/sim"
)

// machine is a directory of this machine that is watched on a live host.
type machine struct {
	*testworld.Runner[*sim.Live]
	dir     string
	handler *handler
}

// shortDir returns a directory whose path leaves room for a socket's name: the kernel allows 107
// bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func newMachine(t *testing.T) *machine {
	m := &machine{
		Runner: testworld.NewRunner(t, sim.NewLive(sim.LiveConfig{})), dir: filepath.Join(shortDir(t), "registry"),
	}
	m.Explain = func() string { return fmt.Sprintf("done %q", m.done()) }
	c := m.Host.Process("kubelet")
	m.handler = &handler{
		c: c, known: map[string]plugins.Registration{}, hold: map[string]bool{"hangs": true},
		fails: map[string]int{},
	}
	manager := pluginmanager.New(pluginmanager.Config{
		Process: c, Sockets: &pluginmanager.Unix{}, Dir: m.dir,
		Handlers: map[string]plugins.Registrar{"CSIPlugin": m.handler},
	})
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- manager.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-watched; err != nil {
			t.Errorf("watch: %v", err)
		}
	})
	m.Host.Start()
	return m
}

// announce serves a plugin at a socket, and returns its registrar and the function that stops it.
func (m *machine) announce(socket, name string) (told *registrar.Registrar, stop func()) {
	m.Helper()
	path := filepath.Join(m.dir, socket)
	m.NoError(os.MkdirAll(filepath.Dir(path), 0o755))
	listener, err := net.Listen("unix", path)
	if err != nil {
		m.Fatal(err)
	}
	told = registrar.New(name, "/"+name+".sock")
	server := grpc.NewServer()
	told.Register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return told, func() {
		m.Helper()
		server.Stop() // removes the socket
		if err := <-done; err != nil {
			m.Errorf("serve: %v", err)
		}
	}
}

// until waits until the handler has done something that many times.
func (m *machine) until(what string, times int) {
	m.Helper()
	m.Until(what, func() bool {
		n := 0
		for _, did := range m.done() {
			if did == what {
				n++
			}
		}
		return n == times
	})
}

// done returns what the handler did.
func (m *machine) done() []string {
	var done []string
	for _, r := range m.Host.Log().Records() {
		if r.Verb == "register" || r.Verb == "deregister" {
			done = append(done, r.Verb+" "+r.Object)
		}
	}
	return done
}

// TestWatch adds and removes plugins at sockets of this machine while another one hangs.
func TestWatch(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.announce("hangs.sock", "hangs")
	a, stop := m.announce("a.sock", "a")
	m.until("register a", 1)
	m.Until("notification of a", func() bool { _, _, told := a.Status(); return told })
	if registered, why, _ := a.Status(); !registered {
		t.Errorf("a is not registered: %s", why)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "file"), nil, 0o600); err != nil { // no socket
		t.Fatal(err)
	}
	_, stopB := m.announce("below/b.sock", "b")
	m.until("register b", 1)
	stop()
	m.until("deregister a", 1)
	_, stop = m.announce("a.sock", "a")
	m.until("register a", 2)
	stopB()
	m.until("deregister b", 1)
	m.announce("below/c.sock", "c")
	m.until("register c", 1)
	stop()
	m.until("deregister a", 2)

	m.announce("d.sock", "d")
	m.until("register d", 1)
	if err := os.RemoveAll(m.dir); err != nil { // the directory itself, which is made again
		t.Fatal(err)
	}
	m.until("deregister c", 1)
	m.until("deregister d", 1)
	m.announce("a.sock", "a")
	m.until("register a", 3)
}

// TestRenamedDirectory renames a directory with sockets in it.
func TestRenamedDirectory(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.announce("from/a.sock", "a")
	m.until("register a", 1)
	if err := os.Rename(filepath.Join(m.dir, "from"), filepath.Join(m.dir, "to")); err != nil {
		t.Fatal(err)
	}
	m.until("deregister a", 1)
	m.until("register a", 2)
}

// TestWatchFailsForFile watches a file instead of a directory.
func TestWatchFailsForFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "registry")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	manager := pluginmanager.New(pluginmanager.Config{
		Process: host.Process("c"), Sockets: &pluginmanager.Unix{},
		Dir: file,
	})
	if err := manager.Watch(t.Context()); err == nil {
		t.Error("no error")
	}
}
