package pluginmanager

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// How long it takes until a plugin that could not be registered, or deregistered, is tried again; doubling each time.
//
// Upstream: pkg/util/goroutinemap/exponentialbackoff (v1.36).
const (
	retryMin = 500 * time.Millisecond
	retryMax = 2*time.Minute + 2*time.Second
)

// pendingMax is how many paths that were told wait to be taken in. If there are more, all is looked at.
const pendingMax = 1000

// Config is what New must be told.
type Config struct {
	Process  *sim.Process
	Sockets  Sockets
	Dir      string                       // in and below which sockets are plugins'; absolute
	Handlers map[string]plugins.Registrar // by type of plugin, such as "CSIPlugin"
}

// Manager is the plugins of one kubelet that announce themselves. Its methods are for the strands of its component, but for Tell
// and Watch.
//
// Differs: upstream does what it is told, each second: a socket that was removed and made again is gone if the two are told the
// wrong way round. It also asks a plugin that it refuses again and again, for which nothing can have changed.
//
// Upstream: pkg/kubelet/pluginmanager PluginManager (v1.36).
type Manager struct {
	cfg Config

	mu      sync.Mutex
	pending []string // guarded by mu: paths of what may have changed, each once; "" is all

	// All below belongs to the component.
	sockets map[string]*socket // by path
	retries *sim.Queue[string]
	waiting map[string]bool // paths that are to be looked at again: each once, however often it fails meanwhile
}

// socket is what is known of a path.
type socket struct {
	running  bool // it is being looked at
	again    bool // it may have changed since it was looked at
	failures int  // in a row
	refused  bool // it is not to be registered, unless another plugin goes or it is made anew

	registered string               // which of the sockets at the path has its plugin registered; "": none
	undo       bool                 // that registration is to be undone, as the plugin was not told
	plugin     plugins.Registration // while registered
}

// New makes the component's part that registers plugins. It begins with the first Tell or Scan.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg, sockets: map[string]*socket{}, waiting: map[string]bool{}}
	cfg.Process.Delivery("plugin sockets", m.told, m.take)
	m.retries = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "plugin retries"})
	m.retries.Work(m.retry)
	return m
}

// Notify says that a socket may have come, gone or been made anew; "" says so of all. It may be called from anywhere, at any time,
// and does not wait.
func (m *Manager) Notify(path string) {
	if path != "" && m.ignored(path) {
		return
	}
	m.mu.Lock()
	switch {
	case slices.Contains(m.pending, path):
	case len(m.pending) == pendingMax:
		m.pending = []string{""}
	default:
		m.pending = append(m.pending, path)
	}
	m.mu.Unlock()
	m.cfg.Process.Wake()
}

// ignored tells whether a path is none of a plugin's.
func (m *Manager) ignored(path string) bool {
	return strings.HasPrefix(m.name(path), "..") || slices.ContainsFunc(strings.Split(m.name(path), "/"), hidden)
}

// name is a path as the record has it: from the directory on.
func (m *Manager) name(path string) string {
	rel, err := filepath.Rel(m.cfg.Dir, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

func (m *Manager) told() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending) > 0
}

// take takes in one thing that was told.
func (m *Manager) take() {
	m.mu.Lock()
	path := m.pending[0]
	m.pending = m.pending[1:]
	m.mu.Unlock()
	if path == "" {
		m.Scan()
		return
	}
	m.look(path)
}

// Scan looks at all sockets there are, and at those whose plugins are registered.
func (m *Manager) Scan() {
	paths, err := m.cfg.Sockets.List(m.cfg.Dir)
	if err != nil {
		m.note("list", m.cfg.Dir, err)
		m.retryAfter("", retryMax)
		return
	}
	paths = slices.AppendSeq(paths, maps.Keys(m.sockets))
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		m.look(path)
	}
}

// look looks at a socket, in a strand of its own; once more if that is being done.
func (m *Manager) look(path string) {
	s := m.sockets[path]
	if s == nil {
		s = &socket{}
		m.sockets[path] = s
	}
	if s.running {
		s.again = true
		return
	}
	s.running, s.again = true, false
	m.cfg.Process.Spawn("plugin "+m.name(path), func(ctx context.Context) {
		err := m.reconcile(ctx, path, s)
		s.running = false
		m.looked(path, s, err)
	})
}

// looked goes on from what came of a look.
func (m *Manager) looked(path string, s *socket, err error) {
	if err != nil {
		m.note("plugin", m.name(path), err)
	}
	if err != nil && !s.refused {
		s.failures++
	} else {
		s.failures = 0
	}
	switch {
	case s.again:
		m.look(path)
	case s.failures > 0:
		m.retryAfter(path, min(retryMin<<min(s.failures-1, 10), retryMax))
	case s.registered == "" && !s.refused:
		delete(m.sockets, path)
	}
}

func (m *Manager) retryAfter(path string, delay time.Duration) {
	if !m.waiting[path] {
		m.waiting[path] = true
		m.retries.AddAfter(path, delay)
	}
}

// retry looks again at what failed, unless that was done in the meantime.
func (m *Manager) retry(_ context.Context, path string) error {
	delete(m.waiting, path)
	switch s := m.sockets[path]; {
	case path == "":
		m.Scan()
	case s != nil && s.failures > 0:
		m.look(path)
	}
	return nil
}

func (m *Manager) note(verb, object string, err error) {
	m.cfg.Process.Record(trace.Action{Kind: trace.KindWork, Verb: verb, Object: object}, trace.Outcome{Err: err})
}
