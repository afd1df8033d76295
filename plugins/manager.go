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

// ErrNoPlugin is matched by the error for a volume that no plugin supports, and for a plugin name
// that is not registered.
var ErrNoPlugin = errors.New("no volume plugin matched")

// ErrSeveralPlugins is matched by the error for a volume that more than one plugin supports.
var ErrSeveralPlugins = errors.New("multiple volume plugins matched")

// ErrUnsupported is matched by the error for a volume, or a plugin name, whose plugin lacks the
// requested capability.
var ErrUnsupported = errors.New("not supported by the volume plugin")

// errNilSpec is the error for a nil volume, which is a mistake of the caller.
//
// Upstream: pkg/volume FindPluginBySpec (v1.36), its text.
var errNilSpec = errors.New("could not find plugin because volume spec is nil")

// A Manager holds the plugins of one process. The zero value is ready; it must not be copied. All
// methods may be called concurrently. Lookups never block: they read an immutable snapshot of the
// plugins.
//
// Differs: upstream probes for dynamic plugins in every lookup, under the lock that all lookups
// need. A driver that hangs while it is probed then blocks all volumes. Here probing is independent
// of lookups; its result arrives through Put and Remove.
//
// Upstream: pkg/volume VolumePluginMgr (v1.36).
type Manager struct {
	entries atomic.Pointer[[]*entry] // sorted by name; replaced, never modified. nil: none

	mu       sync.Mutex // held while entries are replaced
	onChange []func()   // guarded by mu
}

// An entry is a plugin of a manager. It is immutable: snapshots share it.
type entry struct {
	Capabilities
	name    string
	dynamic bool // added by Put; may be replaced or removed
}

// Register adds plugins permanently. A plugin whose name is not qualified or is taken is skipped;
// the others are added. The error joins the reasons for the skipped ones.
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

// Put adds a plugin that may be removed later, or replaces a plugin of the same name that Put
// added. It fails if the name is not qualified or belongs to a registered plugin, which stays.
//
// Differs: upstream accepts a dynamic plugin with a registered plugin's name, and then finds
// neither.
//
// Upstream: pkg/volume processProbedPlugins, ProbeAddOrUpdate (v1.36).
func (m *Manager) Put(p Plugin) error {
	if err := m.add(p, true); err != nil {
		return fmt.Errorf("put volume plugin %q: %w", p.Name(), err)
	}
	return nil
}

// Remove removes the plugin of that name that Put added. It reports whether there was one. Callers
// that found the plugin earlier may still call it.
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

// OnChange registers f to be called after each change of the plugins. f runs in the task that made
// the change. If one process makes all changes in its own tasks, f therefore runs inside that
// process. f may look up plugins; it must not wait for another change.
//
// Differs: upstream has no notification; a lookup that failed is repeated some time later.
func (m *Manager) OnChange(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onChange = append(m.onChange, f)
}

// notify calls the functions registered with OnChange.
func (m *Manager) notify() {
	m.mu.Lock()
	callbacks := slices.Clone(m.onChange)
	m.mu.Unlock()
	for _, f := range callbacks {
		f()
	}
}

// errNameTaken is the error for a name that another plugin has.
var errNameTaken = errors.New("already registered")

func (m *Manager) add(p Plugin, dynamic bool) error {
	if err := m.insert(p, dynamic); err != nil {
		return err
	}
	m.notify()
	return nil
}

// insert adds the plugin at its place in the sorted entries.
func (m *Manager) insert(p Plugin, dynamic bool) error {
	added := &entry{Capabilities: capabilities(p), name: p.Name(), dynamic: dynamic}
	if problems := validation.IsQualifiedName(added.name); len(problems) > 0 {
		return fmt.Errorf("invalid name: %s", strings.Join(problems, "; "))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := m.all()
	switch i, found := find(entries, added.name); {
	case !found:
		m.replace(slices.Concat(entries[:i], []*entry{added}, entries[i:]))
	case dynamic && entries[i].dynamic:
		m.replace(slices.Concat(entries[:i], []*entry{added}, entries[i+1:]))
	default:
		return errNameTaken
	}
	return nil
}

// all returns the current plugins. Callers must not modify them.
func (m *Manager) all() []*entry {
	if entries := m.entries.Load(); entries != nil {
		return *entries
	}
	return nil
}

// replace publishes a new snapshot. The caller holds mu.
func (m *Manager) replace(entries []*entry) { m.entries.Store(&entries) }

// find returns the index of the plugin of that name, or where it would be inserted.
func find(entries []*entry, name string) (i int, found bool) {
	return slices.BinarySearchFunc(entries, name,
		func(e *entry, name string) int { return strings.Compare(e.name, name) })
}

// FindBySpec returns the one plugin that supports the volume. The error matches ErrNoPlugin or
// ErrSeveralPlugins; for a nil spec it matches neither. The Capabilities tell what the plugin
// offers for the volume.
//
// Differs: upstream names several plugins in map order.
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

// multiplePluginsError returns the error that names all plugins that support the volume.
func multiplePluginsError(entries []*entry, spec *Spec) error {
	var names []string
	for _, e := range entries {
		if e.CanSupport(spec) {
			names = append(names, e.name)
		}
	}
	return fmt.Errorf("%w: %s", ErrSeveralPlugins, strings.Join(names, ","))
}

// All returns the plugins, sorted by name.
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
