package plugintest

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// lastSeenTimeout bounds how long LastSeen may take to show a change.
const lastSeenTimeout = time.Minute

// checkAttachState checks that the plugin reports the actual state of an attachment.
func (c *checker) checkAttachState() {
	c.inWorld(func(w *world) {
		attach := pairByName("Attach")
		if !attach.applies(w) || w.caps.Verifier == nil {
			return
		}
		w.wantAttachState(w.Nodes[0], plugins.Detached, "before attaching")
		if !w.done(attach, "") {
			return
		}
		w.wantAttachState(w.Nodes[0], plugins.Attached, "while attached")
		for _, other := range w.Nodes[1:] {
			w.wantAttachState(other, plugins.Detached, "on another node")
		}
		if w.undone(attach, "") {
			w.wantAttachState(w.Nodes[0], plugins.Detached, "after detaching")
		}
	})
}

// wantAttachState checks the state that the plugin saw last, and the one that it looks up.
func (w *world) wantAttachState(node types.NodeName, want plugins.AttachState, when string) {
	name, ok := w.volumeName(w.Volumes[0])
	if !ok {
		return
	}
	before := w.resources()
	var state plugins.AttachState
	ok, err := w.call("Verify", func(ctx context.Context) (err error) {
		state, err = w.caps.Verifier.Verify(ctx, w.Volumes[0], name, node)
		return err
	})
	switch {
	case errors.Is(err, plugins.ErrUnsupported):
		return
	case !ok:
	case err != nil:
		w.problem("Verify: fails "+when, "%v", err)
	case state != want:
		w.problem("Verify: wrong state "+when, "%s, want %s", state, want)
	}
	var seen bool
	w.ask("LastSeen", func() {
		seen = w.Process.Wait("LastSeen", lastSeenTimeout,
			func() bool { return w.caps.Verifier.LastSeen(name, node) == want })
	})
	if !seen {
		w.problem("LastSeen: does not converge "+when, "want %s", want)
	}
	w.wantResources("Verify: has side effects", before)
}

// checkNodes checks that attachments of two volumes to a node are independent, and those of one
// volume to two nodes if that is allowed.
func (c *checker) checkNodes() {
	c.inWorld(func(w *world) {
		if !pairByName("Attach").applies(w) {
			return
		}
		w.checkIndependent("another volume", w.Nodes[0], w.Volumes[1])
	})
	c.inWorld(func(w *world) {
		if len(w.Nodes) < 2 || !pairByName("Attach").applies(w) || !plugins.MultiAttachAllowed(w.Volumes[0]) {
			return
		}
		w.checkIndependent("another node", w.Nodes[1], w.Volumes[0])
	})
}

// checkIndependent attaches the first volume, then attaches and detaches another one, or the same
// to another node.
func (w *world) checkIndependent(what string, node types.NodeName, spec *plugins.Spec) {
	name, ok := w.volumeName(spec)
	if !ok || !w.done(pairByName("Attach"), "") {
		return
	}
	before := w.resources()
	ok, err := w.call("Attach", func(ctx context.Context) error {
		_, err := w.caps.Attacher.Attach(ctx, spec, node)
		return err
	})
	if err != nil || !ok {
		w.problem("Attach: fails next to another attachment ("+what+")", "%v", err)
		return
	}
	_, err = w.call("Detach", func(ctx context.Context) error { return w.caps.Attacher.Detach(ctx, name, node) })
	if err != nil {
		w.problem("Detach: fails next to another attachment ("+what+")", "%v", err)
		return
	}
	w.wantResources("Detach: affects another attachment ("+what+")", before)
}
