package plugins_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/plugins"
)

func TestLookupErrors(t *testing.T) {
	t.Parallel()
	m := manager(t,
		named{"example.com/a", []string{"one", "two"}},
		named{"example.com/b", []string{"two"}},
	)
	errOf := func(_ plugins.Capabilities, err error) error { return err }
	tests := []struct {
		name string
		err  error
		want error
		text string
	}{
		{"none by spec", errOf(m.FindBySpec(volume("none"))), plugins.ErrNoPlugin, "no volume plugin matched"},
		{"none by an empty spec", errOf(m.FindBySpec(&plugins.Spec{})), plugins.ErrNoPlugin, "no volume plugin matched"},
		{
			"none by name", errOf(m.FindByName("example.com/c")), plugins.ErrNoPlugin,
			"no volume plugin matched name: example.com/c",
		},
		{
			"none that provisions", errOf(m.FindProvisionable("example.com/c")), plugins.ErrNoPlugin,
			"no volume plugin matched name: example.com/c",
		},
		{
			"several", errOf(m.FindBySpec(volume("two"))), plugins.ErrSeveralPlugins,
			"multiple volume plugins matched: example.com/a,example.com/b",
		},
		{
			"several that delete", errOf(m.FindDeletableBySpec(volume("two"))), plugins.ErrSeveralPlugins,
			"multiple volume plugins matched: example.com/a,example.com/b",
		},
		{
			"provisions not", errOf(m.FindProvisionable("example.com/a")), plugins.ErrUnsupported,
			"no provisionable volume plugin matched",
		},
		{
			"deletes not", errOf(m.FindDeletable("example.com/a")), plugins.ErrUnsupported,
			"no deletable volume plugin matched",
		},
		{
			"deletes not, by spec", errOf(m.FindDeletableBySpec(volume("one"))), plugins.ErrUnsupported,
			"no deletable volume plugin matched",
		},
		{
			"recycles not", errOf(m.FindRecyclableBySpec(volume("one"))), plugins.ErrUnsupported,
			"no recyclable volume plugin matched",
		},
		{"no spec", errOf(m.FindBySpec(nil)), nil, "could not find plugin because volume spec is nil"},
	}
	for _, tt := range tests {
		for _, class := range []error{plugins.ErrNoPlugin, plugins.ErrSeveralPlugins, plugins.ErrUnsupported} {
			if got := errors.Is(tt.err, class); got != (class == tt.want) {
				t.Errorf("%s: error %v matches %v: %v", tt.name, tt.err, class, got)
			}
		}
		if tt.err == nil || tt.err.Error() != tt.text {
			t.Errorf("%s: message %v, want %q", tt.name, tt.err, tt.text)
		}
	}
	attaches, err := plugins.Capabilities{Plugin: named{}}.Attachable(volume("one"))
	if attaches || err != nil {
		t.Errorf("a plugin that does not attach: %v, %v; want that without an error", attaches, err)
	}
}

func TestRegisterSkipsInvalidPlugins(t *testing.T) {
	t.Parallel()
	var m plugins.Manager
	err := m.Register(named{"example.com/b", []string{"v"}}, named{name: "b/a/d"}, named{name: "example.com/a"},
		named{name: "example.com/a"})
	if err == nil || !strings.Contains(err.Error(), `"b/a/d": invalid name`) || !strings.Contains(err.Error(),
		`"example.com/a": already registered`) {
		t.Errorf("error %v, want what is wrong with either", err)
	}
	if got, err := m.FindBySpec(volume("v")); err != nil || got.Name() != "example.com/b" {
		t.Errorf("found %v, %v", got.Plugin, err)
	}
	if _, err := m.FindByName("example.com/a"); err != nil {
		t.Errorf("the first of two of one name: %v", err)
	}
}

// step is a change of a manager and of its model.
type step struct {
	verb string // register, put, remove
	p    named
}

func drawStep() *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		return step{
			verb: rapid.SampledFrom([]string{"register", "put", "put", "remove"}).Draw(t, "verb"),
			p: named{
				name:     rapid.SampledFrom([]string{"x/a", "x/b", "x/c", "no name"}).Draw(t, "name"),
				supports: rapid.SliceOfNDistinct(rapid.SampledFrom(volumeNames), 0, 3, rapid.ID).Draw(t, "supports"),
			},
		}
	})
}

var volumeNames = []string{"u", "v", "w"}

// twin is a simple, slow model of a manager.
type twin struct {
	plugins map[string]named
	fixed   map[string]bool
	changes int
}

func (w *twin) do(s step) (ok bool) {
	_, taken := w.plugins[s.p.name]
	switch {
	case s.verb == "remove" && (!taken || w.fixed[s.p.name]):
		return false
	case s.verb == "remove":
		delete(w.plugins, s.p.name)
	case s.p.name == "no name", taken && (s.verb == "register" || w.fixed[s.p.name]):
		return false
	default:
		w.plugins[s.p.name] = s.p
		w.fixed[s.p.name] = s.verb == "register"
	}
	w.changes++
	return true
}

// find describes a volume's plugin.
func (w *twin) find(volume string) string {
	var names []string
	for name, p := range w.plugins {
		if slices.Contains(p.supports, volume) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return "no volume plugin matched"
	case 1:
		return "found " + names[0]
	default:
		return "multiple volume plugins matched: " + strings.Join(names, ",")
	}
}

func apply(m *plugins.Manager, s step) (ok bool) {
	switch s.verb {
	case "register":
		return m.Register(s.p) == nil
	case "put":
		return m.Put(s.p) == nil
	default:
		return m.Remove(s.p.name)
	}
}

func TestManagerMatchesModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var m plugins.Manager
		w := &twin{plugins: map[string]named{}, fixed: map[string]bool{}}
		changes := 0
		m.OnChange(func() { changes++ })
		for _, s := range rapid.SliceOfN(drawStep(), 1, 20).Draw(t, "steps") {
			if got, want := apply(&m, s), w.do(s); got != want {
				t.Fatalf("%v: %v, want %v", s, got, want)
			}
			if changes != w.changes {
				t.Fatalf("%v: got %d callbacks, want %d", s, changes, w.changes)
			}
			for _, name := range volumeNames {
				got := ""
				if c, err := m.FindBySpec(volume(name)); err != nil {
					got = err.Error()
				} else {
					got = "found " + c.Name()
				}
				if got != w.find(name) {
					t.Fatalf("%v: volume %s: %s, want %s", s, name, got, w.find(name))
				}
			}
			for _, name := range []string{"x/a", "x/b", "x/c", "no name", ""} {
				got, err := m.FindByName(name)
				want, there := w.plugins[name]
				if (err == nil) != there || there && !cmp.Equal(got.Plugin, plugins.Plugin(want), cmp.AllowUnexported(named{})) {
					t.Fatalf("%v: name %q: %v, %v; want %v", s, name, got.Plugin, err, want)
				}
			}
		}
		if len(w.plugins) > 3 {
			t.Fatalf("twin has %v", slices.Sorted(maps.Keys(w.plugins)))
		}
	})
}

// watching supports the volume v, and signals when it is called.
type watching struct {
	named
	asked func()
}

func (p watching) CanSupport(spec *plugins.Spec) bool {
	p.asked()
	return p.named.CanSupport(spec)
}

// TestLookupsDoNotBlock looks up plugins during a call of a plugin, and during a callback of
// OnChange.
func TestLookupsDoNotBlock(t *testing.T) {
	t.Parallel()
	var m plugins.Manager
	looks := 0
	look := func() {
		if c, err := m.FindByName("x/fixed"); err == nil && c.Name() == "x/fixed" {
			looks++
		}
	}
	if err := m.Register(watching{named{"x/fixed", []string{"v"}}, look}); err != nil {
		t.Fatal(err)
	}
	m.OnChange(look)
	if err := m.Put(named{"x/dynamic", nil}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.FindBySpec(volume("v")); err != nil {
		t.Fatal(err)
	}
	if looks != 2 {
		t.Errorf("found what was looked for %d times in the middle of something else, want 2", looks)
	}
}

// TestConcurrentUse adds and removes plugins during lookups. A lookup finds a plugin completely or
// not at all, and never misses one that stays. The race detector checks the rest.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	var m plugins.Manager
	if err := m.Register(named{"x/stays", []string{"stays"}}); err != nil {
		t.Fatal(err)
	}
	const rounds = 200
	var changing, looking sync.WaitGroup
	for i := range 3 {
		p := full{attaching{named{fmt.Sprintf("x/p%d", i), []string{"goes"}}}}
		changing.Go(func() {
			for range rounds {
				if err := m.Put(p); err != nil {
					t.Error(err)
				}
				if !m.Remove(p.name) {
					t.Errorf("%s did not exist when it was removed", p.name)
				}
			}
		})
	}
	done := make(chan struct{})
	for range 3 {
		looking.Go(func() {
			for {
				if c, err := m.FindBySpec(volume("stays")); err != nil || c.Name() != "x/stays" {
					t.Errorf("what stays: %v, %v", c.Plugin, err)
				}
				c, err := m.FindBySpec(volume("goes"))
				whole := err == nil && c.Attacher != nil && c.Mounter != nil
				if !whole && !errors.Is(err, plugins.ErrNoPlugin) && !errors.Is(err, plugins.ErrSeveralPlugins) {
					t.Errorf("what goes: %v, %v", c.Plugin, err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	changing.Wait()
	close(done)
	looking.Wait()
	if _, err := m.FindBySpec(&plugins.Spec{Volume: &corev1.Volume{Name: "goes"}}); !errors.Is(err, plugins.ErrNoPlugin) {
		t.Errorf("after all have gone: %v", err)
	}
}
