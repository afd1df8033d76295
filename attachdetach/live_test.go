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
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	w := &world{World: &testworld.World{TB: t, Server: server, User: server.Client(host.ExternalCaller())}}
	w.nodeObject("node-1")
	w.disk("disk-1", rwo)
	c := host.Process("attachdetach")
	manager := &plugins.Manager{}
	w.NoError(manager.Register(nullDisk{}))
	attachdetach.New(attachdetach.Config{
		Process: c, Client: server.Client(c), Informers: server.Informers(c), Plugins: manager,
		Recorder: events.New(events.Config{Process: c, Client: server.Client(c), Source: attachdetach.EventSource}),
	})
	host.Start()
	w.pod("a", "node-1", "disk-1")
	ctx := t.Context()
	w.NoError(host.Wait(ctx, "volumes attached", func() bool { return len(w.attachedIn("node-1")) == 1 }))
	w.deletePod("a")
	w.NoError(host.Wait(ctx, "no volumes attached", func() bool { return len(w.attachedIn("node-1")) == 0 }))
}

// nullDisk attaches and detaches immediately.
type nullDisk struct{ disk }

func (nullDisk) CanAttach(*plugins.Spec) (bool, error) { return true, nil }

func (nullDisk) Attach(context.Context, *plugins.Spec, types.NodeName) (string, error) {
	return "/dev/null", nil
}

func (nullDisk) Detach(context.Context, string, types.NodeName) error { return nil }
