package plugins_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// named supports the volumes of those names.
type named struct {
	name     string
	supports []string
}

func (p named) Name() string { return p.name }

func (p named) CanSupport(spec *plugins.Spec) bool {
	for _, name := range p.supports {
		if spec.Name() == name {
			return true
		}
	}
	return false
}

func (p named) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }

// attaching is named with an Attacher, except for the volume named local.
type attaching struct{ named }

var errUnknown = errors.New("unknown volume")

func (attaching) CanAttach(spec *plugins.Spec) (bool, error) {
	if spec.Name() == "unknown" {
		return false, errUnknown
	}
	return spec.Name() != "local", nil
}

func (attaching) Attach(context.Context, *plugins.Spec, types.NodeName) (string, error) {
	return "", nil
}

func (attaching) Detach(context.Context, string, types.NodeName) error { return nil }

// full implements every interface.
type full struct{ attaching }

func (full) CanDeviceMount(spec *plugins.Spec) (bool, error) { return spec.Name() != "local", nil }

func (full) DeviceMountPath(*plugins.Spec) (string, error) { return "", nil }
func (full) MountDevice(context.Context, *plugins.Spec, string, plugins.MountOptions) error {
	return nil
}
func (full) UnmountDevice(context.Context, string) error { return nil }
func (full) MountPath(*plugins.Spec, types.UID) string   { return "" }
func (full) SetUp(context.Context, *plugins.Spec, *corev1.Pod, plugins.MountOptions) error {
	return nil
}
func (full) TearDown(context.Context, string, types.UID) error { return nil }

func volume(name string) *plugins.Spec { return &plugins.Spec{Volume: &corev1.Volume{Name: name}} }

func manager(t *testing.T, all ...plugins.Plugin) *plugins.Manager {
	t.Helper()
	m := &plugins.Manager{}
	for _, p := range all {
		if err := m.Register(p); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestRegister(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		ok   bool
	}{
		{"example.com/disk", true},
		{"kubernetes.io/csi", true},
		{"disk", true},
		{"", false},
		{"example.com/", false},
		{"/disk", false},
		{"example.com/disk/two", false},
		{"Example_com/disk", false},
		{"example.com/-disk", false},
		{"example.com/a b", false},
		{"example.com/taken", false},
	}
	for _, tt := range tests {
		m := manager(t, named{name: "example.com/taken"})
		err := m.Register(named{name: tt.name, supports: []string{"v"}})
		if (err == nil) != tt.ok {
			t.Errorf("register %q: %v, want ok: %v", tt.name, err, tt.ok)
		}
		if _, err := m.FindBySpec(volume("v")); (err == nil) != tt.ok {
			t.Errorf("find what was registered as %q: %v, want ok: %v", tt.name, err, tt.ok)
		}
	}
}

func TestFindBySpec(t *testing.T) {
	t.Parallel()
	// Registered in random order: lookups do not depend on it.
	m := manager(t,
		named{"example.com/c", []string{"one", "three", "two"}},
		named{"example.com/a", []string{"three"}},
		named{"example.com/b", []string{"three", "two"}},
	)
	tests := []struct {
		volume string
		want   string
		is     error
		text   string
	}{
		{"none", "", plugins.ErrNoPlugin, "no volume plugin matched"},
		{"one", "example.com/c", nil, ""},
		{"two", "", plugins.ErrSeveralPlugins, "multiple volume plugins matched: example.com/b,example.com/c"},
		{"three", "", plugins.ErrSeveralPlugins, "multiple volume plugins matched: example.com/a,example.com/b,example.com/c"},
	}
	for _, tt := range tests {
		got, err := m.FindBySpec(volume(tt.volume))
		if !errors.Is(err, tt.is) {
			t.Errorf("%s: error %v, want %v", tt.volume, err, tt.is)
			continue
		}
		if err != nil {
			if diff := cmp.Diff(tt.text, err.Error()); diff != "" {
				t.Errorf("%s: message, which users see (-want +got):\n%s", tt.volume, diff)
			}
			continue
		}
		if got.Name() != tt.want {
			t.Errorf("%s: found %s, want %s", tt.volume, got.Name(), tt.want)
		}
	}
}

func TestFindByName(t *testing.T) {
	t.Parallel()
	m := manager(t, named{name: "example.com/b"}, named{name: "example.com/a"})
	for _, name := range []string{"example.com/a", "example.com/b"} {
		if got, err := m.FindByName(name); err != nil || got.Name() != name {
			t.Errorf("%s: found %v, %v", name, got.Plugin, err)
		}
	}
	var empty plugins.Manager
	for _, m := range []*plugins.Manager{m, &empty} {
		if got, err := m.FindByName("example.com/c"); !errors.Is(err, plugins.ErrNoPlugin) || got.Plugin != nil {
			t.Errorf("found %v, %v; want ErrNoPlugin", got.Plugin, err)
		}
	}
	if _, err := empty.FindBySpec(volume("v")); !errors.Is(err, plugins.ErrNoPlugin) {
		t.Errorf("no plugins: %v, want ErrNoPlugin", err)
	}
}

func TestCapabilitiesAreFoundAtRegistration(t *testing.T) {
	t.Parallel()
	type offers struct{ Attacher, DeviceMounter, Mounter, AttachesThis, MountsThisDevice bool }
	tests := []struct {
		plugin plugins.Plugin
		volume string
		want   offers
	}{
		{named{"example.com/p", nil}, "disk", offers{}},
		{attaching{named{"example.com/p", nil}}, "disk", offers{Attacher: true, AttachesThis: true}},
		{attaching{named{"example.com/p", nil}}, "local", offers{Attacher: true}},
		{full{attaching{named{"example.com/p", nil}}}, "disk", offers{true, true, true, true, true}},
		{full{attaching{named{"example.com/p", nil}}}, "local", offers{Attacher: true, DeviceMounter: true, Mounter: true}},
	}
	for _, tt := range tests {
		c, err := manager(t, tt.plugin).FindByName("example.com/p")
		if err != nil {
			t.Fatal(err)
		}
		attaches, attachErr := c.Attachable(volume(tt.volume))
		mounts, mountErr := c.DeviceMountable(volume(tt.volume))
		if attachErr != nil || mountErr != nil {
			t.Errorf("%T: %v, %v", tt.plugin, attachErr, mountErr)
		}
		got := offers{c.Attacher != nil, c.DeviceMounter != nil, c.Mounter != nil, attaches, mounts}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%T and volume %s (-want +got):\n%s", tt.plugin, tt.volume, diff)
		}
	}
	c, _ := manager(t, attaching{named{"example.com/p", nil}}).FindByName("example.com/p")
	if _, err := c.Attachable(volume("unknown")); !errors.Is(err, errUnknown) {
		t.Errorf("error %v, want the plugin's", err)
	}
}
