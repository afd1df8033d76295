package plugintest

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// lastSeenTimeout is how long a plugin may take until it has seen what was done.
const lastSeenTimeout = time.Minute

// checkAttachState checks that what the plugin sees of an attachment is what is.
func (c *checker) checkAttachState() {
	c.inWorld(func(w *world) {
		attach := pairByName("Attach")
		if !attach.applies(w) || w.caps.Verifier == nil {
			return
		}
		w.wantAttachState(w.Nodes[0], plugins.Detached, "before it is attached")
		if !w.done(attach, "") {
			return
		}
		w.wantAttachState(w.Nodes[0], plugins.Attached, "when it is attached")
		for _, other := range w.Nodes[1:] {
			w.wantAttachState(other, plugins.Detached, "on a node to which it is not attached")
		}
		if w.undone(attach, "") {
			w.wantAttachState(w.Nodes[0], plugins.Detached, "when it is detached")
		}
	})
}

// wantAttachState checks both what the plugin sees and what it says when it looks.
func (w *world) wantAttachState(node types.NodeName, want plugins.AttachState, when string) {
	name, ok := w.volumeName(w.Volumes[0])
	if !ok {
		return
	}
	before := w.resources()
	var is plugins.AttachState
	ok, err := w.call("Verify", func(ctx context.Context) (err error) {
		is, err = w.caps.Verifier.Verify(ctx, name, node)
		return err
	})
	switch {
	case !ok:
	case err != nil:
		w.problem("Verify: it fails "+when, "%v", err)
	case is != want:
		w.problem("Verify: it does not say what is "+when, "%s, want %s", is, want)
	}
	var seen bool
	w.ask("LastSeen", func() {
		seen = w.Process.Wait("it to be seen", lastSeenTimeout, func() bool { return w.caps.Verifier.LastSeen(name, node) == want })
	})
	if !seen {
		w.problem("LastSeen: it does not come to say what is "+when, "want %s", want)
	}
	w.wantResources("Verify: it changes something", before)
}

// checkNodes checks that two volumes on a node, and one on two nodes where that is allowed, do not disturb one another.
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

// checkIndependent attaches the first volume, attaches another beside it and detaches that.
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
		w.problem("Attach: it fails for "+what+" beside", "%v", err)
		return
	}
	_, err = w.call("Detach", func(ctx context.Context) error { return w.caps.Attacher.Detach(ctx, name, node) })
	if err != nil {
		w.problem("Detach: it fails for "+what+" beside", "%v", err)
		return
	}
	w.wantResources("Detach: it is not what it was told that it takes away, of "+what+" beside", before)
}
