package pluginmanager

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/volsim/volsim/internal/watchdir"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Config configures a Manager.
type Config struct {
	Process  *sim.Process
	Sockets  Sockets
	Dir      string                       // the registration directory, with its subdirectories; absolute
	Handlers map[string]plugins.Registrar // by type of plugin, such as "CSIPlugin"
}

// A Manager registers the plugins of one kubelet. Its methods are called in tasks of its process,
// except for Notify and Watch.
//
// Differs: upstream applies events as they are reported, once a second. A socket that was removed
// and recreated disappears if the two events arrive in the wrong order. It also keeps asking a
// plugin that it has rejected, although nothing can have changed.
//
// Upstream: pkg/kubelet/pluginmanager PluginManager (v1.36).
type Manager struct {
	cfg   Config
	queue *watchdir.Queue[socket]
}

// socket is what is known of a path. It belongs to the process.
type socket struct {
	rejected bool // not retried unless another plugin is deregistered or the socket is recreated

	registered string               // identity of the socket whose plugin is registered; "": none
	undo       bool                 // deregister: the plugin could not be notified of its registration
	plugin     plugins.Registration // while registered
}

// New adds the manager's tasks to the process. It does nothing before the first Notify or Scan.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg}
	m.queue = watchdir.NewQueue(watchdir.Config[socket]{
		Process: cfg.Process, Name: "plugin sockets", RetryName: "plugin retries", Verb: "plugin", Display: m.name,
		Scan: m.Scan, Sync: m.reconcile,
		Final: func(s *socket) bool { return s.rejected },
		Keep:  func(s *socket) bool { return s.registered != "" || s.rejected },
	})
	return m
}

// Notify reports that a socket may have appeared, disappeared or been recreated; "" means all
// sockets. It may be called from any goroutine, at any time, and does not block.
func (m *Manager) Notify(path string) {
	if path == "" || !m.ignored(path) {
		m.queue.Notify(path)
	}
}

// ignored reports whether a path is not a plugin's.
func (m *Manager) ignored(path string) bool {
	return strings.HasPrefix(m.name(path), "..") || slices.ContainsFunc(strings.Split(m.name(path), "/"), hidden)
}

// name returns a path relative to the registration directory, for the record.
func (m *Manager) name(path string) string {
	rel, err := filepath.Rel(m.cfg.Dir, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

// Scan reconciles all sockets that exist, and those whose plugins are registered.
func (m *Manager) Scan() {
	paths, err := m.cfg.Sockets.List(m.cfg.Dir)
	if err != nil {
		m.record("list", m.cfg.Dir, err)
		m.queue.RetryScan()
		return
	}
	m.queue.SyncAll(paths)
}

func (m *Manager) record(verb, object string, err error) {
	m.cfg.Process.Record(trace.Action{Kind: trace.KindWork, Verb: verb, Object: object}, trace.Outcome{Err: err})
}
