package plugins

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrNoPlugin is matched by the error for a volume that no plugin supports, and for a name that none has.
var ErrNoPlugin = errors.New("no volume plugin matched")

// ErrSeveralPlugins is matched by the error for a volume that more than one plugin supports.
var ErrSeveralPlugins = errors.New("multiple volume plugins matched")

// ErrUnsupported is matched by the error for a volume, or a name, whose one plugin does not offer what it was looked for.
var ErrUnsupported = errors.New("not supported by the volume plugin")

// errNilSpec says that no volume was given: that is whoever asks' own mistake.
//
// Upstream: pkg/volume FindPluginBySpec (v1.36), its text.
var errNilSpec = errors.New("could not find plugin because volume spec is nil")

// Manager holds the plugins of one process. The zero value is ready; it must not be copied. All of its methods may be called
// concurrently. Who looks for a plugin waits for nobody: he sees the plugins as they were at one moment.
//
// Differs: upstream probes for dynamic plugins whenever somebody looks for a plugin, under the lock that all who look need; a
// driver that hangs while it is probed holds up all volumes. Here whoever probes does so on his own, and tells the outcome by
// Put and Remove.
//
// Upstream: pkg/volume VolumePluginMgr (v1.36).
type Manager struct {
	entries atomic.Pointer[[]entry] // sorted by name; replaced, never changed. nil: none

	mu       sync.Mutex // held by who replaces entries
	onChange []func()   // guarded by mu
}

// entry is a plugin of a manager.
type entry struct {
	Capabilities
	name    string
	dynamic bool // it was put, and may be replaced or removed
}

// Register adds plugins that stay for good. One whose name is not qualified or is taken is left out, and the others are added
// all the same: the error says what is wrong with each that was left out.
//
// Upstream: pkg/volume InitPlugins (v1.36).
func (m *Manager) Register(plugins ...Plugin) error {
	var errs []error
	for _, p := range plugins {
		if err := m.add(p, false); err != nil {
			errs = append(errs, fmt.Errorf("register volume plugin %q: %w", p.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// Put adds a plugin that may go again, or replaces the one of its name that was put before. It fails for a name that is not
// qualified, or that is a registered plugin's, which stays.
//
// Differs: upstream takes a dynamic plugin of a registered one's name, and then finds neither.
//
// Upstream: pkg/volume processProbedPlugins, ProbeAddOrUpdate (v1.36).
func (m *Manager) Put(p Plugin) error {
	if err := m.add(p, true); err != nil {
		return fmt.Errorf("put volume plugin %q: %w", p.Name(), err)
	}
	return nil
}

// Remove takes out the plugin of that name that was put, and tells whether there was one. Whoever has found it before may
// still call it.
//
// Upstream: pkg/volume processProbedPlugins, ProbeRemove (v1.36).
func (m *Manager) Remove(name string) bool {
	m.mu.Lock()
	old := m.all()
	i, found := find(old, name)
	found = found && old[i].dynamic
	if found {
		m.replace(slices.Delete(slices.Clone(old), i, i+1))
	}
	m.mu.Unlock()
	if found {
		m.notify()
	}
	return found
}

// OnChange has f called after each change of the plugins, by whoever makes it: a component that changes its manager in its own
// strands only is told in its monitor. f may look for plugins; it must not wait for another change.
//
// Differs: upstream tells nobody; who has looked in vain looks again some time.
func (m *Manager) OnChange(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onChange = append(m.onChange, f)
}

func (m *Manager) notify() {
	m.mu.Lock()
	told := slices.Clone(m.onChange)
	m.mu.Unlock()
	for _, f := range told {
		f()
	}
}

// errNameTaken is the error for a name that another plugin has.
var errNameTaken = errors.New("registered already")

func (m *Manager) add(p Plugin, dynamic bool) error {
	if err := m.insert(p, dynamic); err != nil {
		return err
	}
	m.notify()
	return nil
}

// insert puts a plugin into its place.
func (m *Manager) insert(p Plugin, dynamic bool) error {
	added := entry{Capabilities: capabilities(p), name: p.Name(), dynamic: dynamic}
	if problems := validation.IsQualifiedName(added.name); len(problems) > 0 {
		return fmt.Errorf("invalid name: %s", strings.Join(problems, "; "))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := slices.Clone(m.all())
	switch i, found := find(entries, added.name); {
	case !found:
		m.replace(slices.Insert(entries, i, added))
	case dynamic && entries[i].dynamic:
		entries[i] = added
		m.replace(entries)
	default:
		return errNameTaken
	}
	return nil
}

// all are the plugins as they are now. They are not to be changed.
func (m *Manager) all() []entry {
	if entries := m.entries.Load(); entries != nil {
		return *entries
	}
	return nil
}

// replace has those who look from now on see other plugins. mu is held.
func (m *Manager) replace(entries []entry) { m.entries.Store(&entries) }

// find is where the plugin of a name is, or would be.
func find(entries []entry, name string) (i int, found bool) {
	return slices.BinarySearchFunc(entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
}

// FindBySpec returns the one plugin that supports the volume. The error matches ErrNoPlugin or ErrSeveralPlugins; without a
// volume it matches neither. What of the plugin's tiers the volume needs, its Capabilities tell.
//
// Differs: upstream names several plugins in the order of a map.
//
// Upstream: pkg/volume FindPluginBySpec (v1.36).
func (m *Manager) FindBySpec(spec *Spec) (Capabilities, error) {
	if spec == nil {
		return Capabilities{}, errNilSpec
	}
	entries := m.all()
	first := -1
	for i, e := range entries {
		switch {
		case !e.CanSupport(spec):
		case first < 0:
			first = i
		default:
			return Capabilities{}, multiplePluginsError(entries[first:], spec)
		}
	}
	if first < 0 {
		return Capabilities{}, ErrNoPlugin
	}
	return entries[first].Capabilities, nil
}

// multiplePluginsError is the error that names all plugins that support a volume.
func multiplePluginsError(entries []entry, spec *Spec) error {
	var names []string
	for _, e := range entries {
		if e.CanSupport(spec) {
			names = append(names, e.name)
		}
	}
	return fmt.Errorf("%w: %s", ErrSeveralPlugins, strings.Join(names, ","))
}

// All are the plugins, sorted by name.
func (m *Manager) All() []Capabilities {
	entries := m.all()
	all := make([]Capabilities, len(entries))
	for i, e := range entries {
		all[i] = e.Capabilities
	}
	return all
}

// FindByName returns the plugin of that name. The error matches ErrNoPlugin.
//
// Upstream: pkg/volume FindPluginByName (v1.36).
func (m *Manager) FindByName(name string) (Capabilities, error) {
	entries := m.all()
	if i, found := find(entries, name); found {
		return entries[i].Capabilities, nil
	}
	return Capabilities{}, fmt.Errorf("%w name: %s", ErrNoPlugin, name)
}
