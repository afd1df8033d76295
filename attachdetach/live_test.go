package attachdetach_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// TestLive runs the controller on goroutines and the real clock.
func TestLive(t *testing.T) {
	t.Parallel()
	live := testworld.NewOn(t, sim.NewLive(sim.LiveConfig{}), fake.Config{})
	w := &world{World: live.Hostless()}
	w.nodeObject("node-1")
	w.disk("disk-1", rwo)
	c := live.Host.Process("attachdetach")
	manager := &plugins.Manager{}
	w.NoError(manager.Register(nullDisk{}))
	attachdetach.New(attachdetach.Config{
		Process: c, Client: w.Server.Client(c), Informers: w.Server.Informers(c), Plugins: manager,
		Recorder: events.New(events.Config{Process: c, Client: w.Server.Client(c), Source: attachdetach.EventSource}),
	})
	live.Host.Start()
	w.pod("a", "node-1", "disk-1")
	live.Until("volumes attached", func() bool { return len(w.attachedIn("node-1")) == 1 })
	w.deletePod("a")
	live.Until("no volumes attached", func() bool { return len(w.attachedIn("node-1")) == 0 })
}

// nullDisk attaches and detaches immediately.
type nullDisk struct{ disk }

func (nullDisk) CanAttach(*plugins.Spec) (bool, error) { return true, nil }

func (nullDisk) Attach(context.Context, *plugins.Spec, types.NodeName) (string, error) {
	return "/dev/null", nil
}

func (nullDisk) Detach(context.Context, string, types.NodeName) error { return nil }
