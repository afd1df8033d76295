package attacher_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// slowPublish is the strategy under which the driver takes its time to attach: meanwhile caches see everything.
type slowPublish struct{}

// Decide follows the default order, but delivers events before ControllerPublishVolume.
func (slowPublish) Decide(d *sim.Decision) sim.Move {
	if action, calls := d.Task(0).Pending(); !calls || action.Verb != "ControllerPublishVolume" {
		return sim.Move{}
	}
	for i := range d.Len() {
		if strings.Contains(d.Task(i).Name(), "/cache ") {
			return sim.Move{Option: i}
		}
	}
	return sim.Move{}
}

// TestOldListAttachesAgain starts another attacher whose first list is from before the detachment. As upstream's,
// it sees its finalizer, so it writes nothing before it calls the driver. If its cache sees the deletion during
// the call, the volume stays attached without an attachment: the detachment is not due to any object.
func TestOldListAttachesAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events int // by which the list is old
		slow   bool
		want   []string
	}{
		{"before the deletion", 2, true, nil},
		{"before it was marked as attached", 3, true, []string{"id-1"}},
		{"before it was marked as attached, and the driver is fast", 3, false, nil},
		{"before the finalizer, which its cache then has", 4, true, []string{"id-1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.node("node-1", "id-1")
			w.node("node-2", "id-2")
			w.volume("vol")
			w.attach("va", "vol", "node-1")
			w.Run()
			w.detach("va")
			w.Run()
			testcheck.Equal(t, "attached to", nil, w.array.Volumes()[0].AttachedTo)
			late := w.Host.Process("attacher#2")
			w.Server.DelayCache(late, "volumeattachments", tt.events)
			w.startAttacher(late)
			if tt.slow {
				w.Host.SetStrategy(slowPublish{})
			}
			w.Run()
			if w.attachment("va") != nil {
				t.Error("the attachment is back")
			}
			testcheck.Equal(t, "attached to", tt.want, w.array.Volumes()[0].AttachedTo)
		})
	}
}
