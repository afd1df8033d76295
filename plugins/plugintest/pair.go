package plugintest

import (
	"context"

	"github.com/volsim/volsim/plugins"
)

// A pair is something that a plugin does, and what undoes it.
type pair struct {
	do, undo string // their names
	// applies reports whether the world has everything that the pair needs.
	applies      func(w *world) bool
	doIt         func(ctx context.Context, w *world) error
	undoIt       func(ctx context.Context, w *world) error
	needs        []string // the names of the pairs that must be done before
	takesOptions bool     // it takes MountOptions
	// classified reports whether an error's class describes the state. That of Attach does not: its
	// callers assume the worst.
	classified bool
}

// pairs are all pairs, in the order in which they are done.
var pairs = []pair{
	{
		do: "Attach", undo: "Detach",
		applies: func(w *world) bool { return len(w.Nodes) > 0 && w.can("CanAttach", w.caps.Attachable) },
		doIt: func(ctx context.Context, w *world) (err error) {
			w.device, err = w.caps.Attacher.Attach(ctx, w.Volumes[0], w.Nodes[0])
			return err
		},
		undoIt: func(ctx context.Context, w *world) error {
			name, err := w.Plugin.VolumeName(w.Volumes[0])
			if err != nil {
				return err
			}
			return w.caps.Attacher.Detach(ctx, name, w.Nodes[0])
		},
	},
	{
		do: "MountDevice", undo: "UnmountDevice", needs: []string{"Attach"}, takesOptions: true, classified: true,
		applies: func(w *world) bool { return len(w.Pods) > 0 && w.can("CanDeviceMount", w.caps.DeviceMountable) },
		doIt: func(ctx context.Context, w *world) error {
			path, err := w.caps.DeviceMounter.DeviceMountPath(w.Volumes[0])
			if err != nil {
				return err
			}
			return w.caps.DeviceMounter.MountDevice(ctx, w.Volumes[0], path, w.mountOptions())
		},
		undoIt: func(ctx context.Context, w *world) error {
			path, err := w.caps.DeviceMounter.DeviceMountPath(w.Volumes[0])
			if err != nil {
				return err
			}
			return w.caps.DeviceMounter.UnmountDevice(ctx, path)
		},
	},
	{
		do: "SetUp", undo: "TearDown", needs: []string{"Attach", "MountDevice"}, takesOptions: true, classified: true,
		applies: func(w *world) bool { return len(w.Pods) > 0 && w.caps.Mounter != nil },
		doIt: func(ctx context.Context, w *world) error {
			return w.caps.Mounter.SetUp(ctx, w.Volumes[0], w.Pods[0], w.mountOptions())
		},
		undoIt: func(ctx context.Context, w *world) error {
			return w.caps.Mounter.TearDown(ctx, w.Volumes[0].Name(), w.Pods[0].UID)
		},
	},
	{
		do: "Provision", undo: "Delete", classified: true,
		applies: func(w *world) bool {
			return w.Provision != nil && w.caps.Provisioner != nil && w.caps.Deleter != nil
		},
		doIt: func(ctx context.Context, w *world) (err error) {
			w.made, err = w.caps.Provisioner.Provision(ctx, *w.Provision)
			return err
		},
		undoIt: deleteMade,
	},
}

// deleteMade deletes the volume that may have been provisioned. If its identity is unknown, it is
// provisioned again first, and so found.
func deleteMade(ctx context.Context, w *world) error {
	if w.made == nil {
		volume, err := w.caps.Provisioner.Provision(ctx, *w.Provision)
		if err != nil {
			return err
		}
		w.made = volume
	}
	return w.caps.Deleter.Delete(ctx, &plugins.Spec{PersistentVolume: w.made})
}

// can reports whether a query about the first volume is answered with true. A failed query is a
// violation.
func (w *world) can(what string, ask func(*plugins.Spec) (bool, error)) (can bool) {
	var err error
	w.ask(what, func() { can, err = ask(w.Volumes[0]) })
	if err != nil {
		w.problem(what+": fails for a supported volume", "%v", err)
	}
	return can && err == nil
}

func (w *world) doPair(p pair) (ok bool, err error) {
	return w.call(p.do, func(ctx context.Context) error { return p.doIt(ctx, w) })
}

func (w *world) undoPair(p pair) (ok bool, err error) {
	return w.call(p.undo, func(ctx context.Context) error { return p.undoIt(ctx, w) })
}

// done does a pair, and reports whether that succeeded. A failure is a violation.
func (w *world) done(p pair, when string) bool {
	ok, err := w.doPair(p)
	if ok && err != nil {
		w.problem(p.do+": fails"+when, "%v", err)
	}
	return ok && err == nil
}

// undone undoes a pair, and reports whether that succeeded. A failure is a violation.
func (w *world) undone(p pair, when string) bool {
	ok, err := w.undoPair(p)
	if ok && err != nil {
		w.problem(p.undo+": fails"+when, "%v", err)
	}
	return ok && err == nil
}

// prepared does what a pair needs, in a new world. It returns the resources that exist then.
func (w *world) prepared(p pair) (before []string, ok bool) {
	if !p.applies(w) {
		return nil, false
	}
	for _, other := range pairs {
		for _, name := range p.needs {
			if other.do == name && other.applies(w) && !w.done(other, "") {
				return nil, false
			}
		}
	}
	return w.resources(), true
}

// checkPair checks a pair. It skips the expensive checks if the basic ones fail.
func (c *checker) checkPair(p pair) {
	applies, stepped, found := false, false, len(c.problems)
	c.inWorld(func(w *world) {
		applies, stepped = p.applies(w), w.stepped != nil
		if applies {
			w.checkIdempotence(p)
		}
	})
	if !applies || len(c.problems) > found { // the other checks would report the same
		return
	}
	c.checkCancellation(p)
	if !stepped {
		return
	}
	c.checkFaults(p, true)
	c.checkFaults(p, false)
	c.checkCrashes(p, true)
	c.checkCrashes(p, false)
}

func (w *world) checkIdempotence(p pair) {
	before, ok := w.prepared(p)
	if !ok {
		return
	}
	if p.do != "Provision" { // what was never provisioned has no name to delete
		w.undone(p, " when nothing was done")
		w.wantResources(p.undo+": has side effects when nothing was done", before)
	}
	if !w.done(p, "") {
		return
	}
	device, after := w.device, w.resources()
	if w.done(p, " when repeated") {
		w.wantResources(p.do+": not idempotent", after)
	}
	if w.device != device {
		w.problem("Attach: device path changes when repeated", "%q, previously %q", w.device, device)
	}
	if w.undone(p, "") {
		w.wantResources(p.undo+": leaks resources", before)
	}
	if w.undone(p, " when repeated") {
		w.wantResources(p.undo+": not idempotent", before)
	}
	if w.done(p, " after "+p.undo) && w.undone(p, " after a second "+p.do) {
		w.wantResources(p.undo+": leaks resources after a second "+p.do, before)
	}
}

// checkCancellation does and undoes the pair with a canceled context.
func (c *checker) checkCancellation(p pair) {
	for _, undo := range []bool{false, true} {
		c.inWorld(func(w *world) {
			before, ok := w.prepared(p)
			if !ok || undo && !w.done(p, "") {
				return
			}
			what, call := p.do, p.doIt
			if undo {
				what, call = p.undo, p.undoIt
			}
			ok, err := w.call(what+" with a canceled context", func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return call(ctx, w)
			})
			if !ok {
				return
			}
			if !undo {
				w.wantClass(p, err, before)
			}
			w.wantEnd(p, " after "+what+" with a canceled context", !undo && err == nil, before)
		})
	}
}

// wantClass checks that the resources are as the error's class says.
func (w *world) wantClass(p pair, err error, before []string) {
	if class := plugins.ClassOf(err); err != nil && p.classified && class != plugins.Uncertain {
		w.wantResources(p.do+": "+class.String()+" error leaks resources", before)
	}
}

// wantEnd checks that the pair can be undone, and first repeated if again is set, with no resources
// left over.
func (w *world) wantEnd(p pair, when string, again bool, before []string) {
	if again && !w.done(p, when) {
		return
	}
	if w.undone(p, when) {
		w.wantResources(p.undo+": leaks resources"+when, before)
	}
}
