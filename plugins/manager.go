package plugins

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrNoPlugin is matched by the error for a volume that no plugin supports.
var ErrNoPlugin = errors.New("no volume plugin matched")

// ErrSeveralPlugins is matched by the error for a volume that more than one plugin supports.
var ErrSeveralPlugins = errors.New("multiple volume plugins matched")

// Capabilities is a plugin with what it offers; what it doesn't is nil.
type Capabilities struct {
	Plugin
	Attacher      Attacher
	Verifier      Verifier
	Limiter       Limiter
	DeviceMounter DeviceMounter
	Mounter       Mounter
	Provisioner   Provisioner
	Deleter       Deleter
	Recycler      Recycler
}

// Attachable tells whether this volume is attached before use.
func (c Capabilities) Attachable(spec *Spec) (bool, error) {
	if c.Attacher == nil {
		return false, nil
	}
	return c.Attacher.CanAttach(spec)
}

// DeviceMountable tells whether this volume is mounted for the node before it is mounted for pods.
func (c Capabilities) DeviceMountable(spec *Spec) (bool, error) {
	if c.DeviceMounter == nil {
		return false, nil
	}
	return c.DeviceMounter.CanDeviceMount(spec)
}

// Manager holds the plugins of one process. The zero value is ready. Register first, find afterwards: finding may be
// done concurrently.
//
// Upstream: pkg/volume VolumePluginMgr.
type Manager struct {
	plugins []Capabilities // sorted by name
}

// Register adds a plugin. It fails for a name that is not qualified or that is taken.
func (m *Manager) Register(p Plugin) error {
	if problems := validation.IsQualifiedName(p.Name()); len(problems) > 0 {
		return fmt.Errorf("register volume plugin %q: invalid name: %s", p.Name(), strings.Join(problems, "; "))
	}
	c := Capabilities{Plugin: p}
	c.Attacher, _ = p.(Attacher)
	c.Verifier, _ = p.(Verifier)
	c.Limiter, _ = p.(Limiter)
	c.DeviceMounter, _ = p.(DeviceMounter)
	c.Mounter, _ = p.(Mounter)
	c.Provisioner, _ = p.(Provisioner)
	c.Deleter, _ = p.(Deleter)
	c.Recycler, _ = p.(Recycler)
	at, found := slices.BinarySearchFunc(m.plugins, p.Name(), func(c Capabilities, name string) int {
		return strings.Compare(c.Name(), name)
	})
	if found {
		return fmt.Errorf("register volume plugin %q: registered already", p.Name())
	}
	m.plugins = slices.Insert(m.plugins, at, c)
	return nil
}

// FindBySpec returns the one plugin that supports the volume. The error matches ErrNoPlugin or ErrSeveralPlugins.
func (m *Manager) FindBySpec(spec *Spec) (Capabilities, error) {
	var found []Capabilities
	for _, c := range m.plugins {
		if c.CanSupport(spec) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return Capabilities{}, ErrNoPlugin
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, c := range found {
		names[i] = c.Name()
	}
	return Capabilities{}, fmt.Errorf("%w: %s", ErrSeveralPlugins, strings.Join(names, ","))
}

// FindByName returns the plugin of that name. The error matches ErrNoPlugin.
func (m *Manager) FindByName(name string) (Capabilities, error) {
	for _, c := range m.plugins {
		if c.Name() == name {
			return c, nil
		}
	}
	return Capabilities{}, fmt.Errorf("%w name: %s", ErrNoPlugin, name)
}
