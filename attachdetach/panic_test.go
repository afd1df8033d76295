package attachdetach_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
)

// careless is a disk that panics once, at the given call.
type careless struct {
	disk
	at string
}

func (d *careless) Attach(ctx context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	path, err := d.disk.Attach(ctx, spec, node)
	name, _ := d.VolumeName(spec)
	d.stumble("Attach " + name + " " + string(node))
	return path, err
}

func (d *careless) Detach(ctx context.Context, name string, node types.NodeName) error {
	err := d.disk.Detach(ctx, name, node)
	d.stumble("Detach " + name + " " + string(node))
	return err
}

func (d *careless) stumble(call string) {
	if d.at == call {
		d.at = ""
		panic("no such slot")
	}
}

func carelessWorld(t *testing.T, at string) *world {
	t.Helper()
	w := newWorld(t, nil)
	w.node("node-1")
	w.disk("disk-1", rwo)
	w.disk("disk-2", rwo)
	w.pod("a", "node-1", "disk-1", "disk-2")
	w.start(func(cfg *attachdetach.Config) {
		cfg.Plugins = &plugins.Manager{}
		w.NoError(cfg.Plugins.Register(&careless{disk: disk{c: cfg.Process, b: w.backend}, at: at}))
	})
	w.Run()
	return w
}

// A panic of a plugin fails one attach. The volume is then uncertain, and its attach is retried
// after the back-off. Other volumes are not affected.
func TestPanicOfAPluginFailsOneAttach(t *testing.T) {
	t.Parallel()
	w := carelessWorld(t, "Attach disk-1 node-1")
	w.quiet()
	testcheck.Equal(w, "calls",
		[]string{"0s Attach disk-1 node-1", "0s Attach disk-2 node-1", "500ms Attach disk-1 node-1"}, w.backend.calls)
	testcheck.Equal(w, "events", []string{
		`x1 Normal SuccessfulAttachVolume a: AttachVolume.Attach succeeded for volume "disk-1" `,
		`x1 Normal SuccessfulAttachVolume a: AttachVolume.Attach succeeded for volume "disk-2" `,
		`x1 Warning FailedAttachVolume a: AttachVolume.Attach failed for volume "disk-1" : panic: no such slot`,
	}, w.events())
	if panics := w.Host.Panics(); len(panics) != 1 || panics[0].Value != "no such slot" {
		t.Errorf("panics of the host: %v", panics)
	}
}

// A failed detach records no event, except after a panic: then on the node.
func TestPanicOfAPluginFailsOneDetach(t *testing.T) {
	t.Parallel()
	w := carelessWorld(t, "Detach disk-1 node-1")
	w.deletePod("a")
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls", []string{
		"0s Attach disk-1 node-1", "0s Attach disk-2 node-1",
		"0s Detach disk-1 node-1", "0s Detach disk-2 node-1", "500ms Detach disk-1 node-1",
	}, w.backend.calls)
	events := w.events()
	want := `x1 Warning FailedDetachVolume node-1: DetachVolume.Detach failed for volume "example.com/disk/disk-1" : panic: no such slot`
	if last := events[len(events)-1]; last != want {
		t.Errorf("last event %q, want %q", last, want)
	}
}
