package attachdetach_test

import (
	"context"
	"testing"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// TestPluginsAreRegisteredAndRemoved registers a plugin after the pods that need it, removes it
// while they run, and registers it again.
func TestPluginsAreRegisteredAndRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.disk("disk-1", rwo)
	w.disk("disk-2", rwo)
	manager := &plugins.Manager{}
	var component *sim.Process
	w.start(func(cfg *attachdetach.Config) { component, cfg.Plugins = cfg.Process, manager })
	change := func(f func()) {
		component.Spawn("change", func(context.Context) { f() })
		w.Run()
	}
	put := func() { w.NoError(manager.Put(disk{c: component, b: w.backend})) }

	w.pod("a", "node-1", "disk-1")
	w.Run()
	testcheck.Equal(w, "calls while there is no plugin", nil, w.backend.calls)
	change(put)
	want := []string{"0s Attach disk-1 node-1"}
	testcheck.Equal(w, "calls after registering", want, w.backend.calls)
	w.quiet()

	change(func() { manager.Remove(diskName) })
	w.pod("b", "node-1", "disk-2")
	w.Run()
	testcheck.Equal(w, "calls after removing", want, w.backend.calls)
	testcheck.Equal(w, "attached by the node status",
		[]string{diskName + "/disk-1=/dev/disk-1"}, w.attachedIn("node-1"))
	change(put)
	testcheck.Equal(w, "calls after registering again", append(want, "0s Attach disk-2 node-1"), w.backend.calls)
	w.quiet()
}
