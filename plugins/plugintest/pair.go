package plugintest

import (
	"context"

	"github.com/volsim/volsim/plugins"
)

// pair is something a plugin does, and what undoes it.
type pair struct {
	do, undo string // their names
	// applies tells whether the world has all that it needs.
	applies      func(w *world) bool
	doIt         func(ctx context.Context, w *world) error
	undoIt       func(ctx context.Context, w *world) error
	needs        []string // what is done before it: the names of other pairs
	takesOptions bool     // it is told how a pod uses the volume
	// classified says that an error's class tells what there is. That of Attach tells nothing: its callers presume the worst.
	classified bool
}

// pairs are all of them, in the order in which they are done.
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

// deleteMade deletes the volume that may have been made. Where nobody knows what it is, it is made first, and so found.
func deleteMade(ctx context.Context, w *world) error {
	if w.made == nil {
		made, err := w.caps.Provisioner.Provision(ctx, *w.Provision)
		if err != nil {
			return err
		}
		w.made = made
	}
	return w.caps.Deleter.Delete(ctx, &plugins.Spec{PersistentVolume: w.made})
}

// can asks about the first volume.
func (w *world) can(what string, ask func(*plugins.Spec) (bool, error)) (can bool) {
	var err error
	w.ask(what, func() { can, err = ask(w.Volumes[0]) })
	if err != nil {
		w.problem(what+": it fails for a volume that is supported", "%v", err)
	}
	return can && err == nil
}

func (w *world) doPair(p pair) (ok bool, err error) {
	return w.call(p.do, func(ctx context.Context) error { return p.doIt(ctx, w) })
}

func (w *world) undoPair(p pair) (ok bool, err error) {
	return w.call(p.undo, func(ctx context.Context) error { return p.undoIt(ctx, w) })
}

// done does a pair, and notes a problem if that fails.
func (w *world) done(p pair, when string) bool {
	ok, err := w.doPair(p)
	if ok && err != nil {
		w.problem(p.do+": it fails"+when, "%v", err)
	}
	return ok && err == nil
}

// undone undoes a pair, and notes a problem if that fails.
func (w *world) undone(p pair, when string) bool {
	ok, err := w.undoPair(p)
	if ok && err != nil {
		w.problem(p.undo+": it fails"+when, "%v", err)
	}
	return ok && err == nil
}

// prepared does what a pair needs, in a fresh world. It returns what there is then.
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

// checkPair checks all that holds of something that is done and undone; the harder part of it if the rest holds.
func (c *checker) checkPair(p pair) {
	applies, stepped, found := false, false, len(c.problems)
	c.inWorld(func(w *world) {
		applies, stepped = p.applies(w), w.stepped != nil
		if applies {
			w.checkIdempotence(p)
		}
	})
	if !applies || len(c.problems) > found { // then the rest would say it again
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
	if p.do != "Provision" { // what was never made has no name to delete it by
		w.undone(p, " where nothing was done")
		w.wantResources(p.undo+": it changes something where nothing was done", before)
	}
	if !w.done(p, "") {
		return
	}
	device, after := w.device, w.resources()
	if w.done(p, " the second time") {
		w.wantResources(p.do+": it changes something the second time", after)
	}
	if w.device != device {
		w.problem("Attach: the device path is another the second time", "%q, and before %q", w.device, device)
	}
	if w.undone(p, "") {
		w.wantResources(p.undo+": it leaves something", before)
	}
	if w.undone(p, " the second time") {
		w.wantResources(p.undo+": it changes something the second time", before)
	}
	if w.done(p, " after it was undone") && w.undone(p, " after it was done again") {
		w.wantResources(p.undo+": it leaves something after it was done again", before)
	}
}

// checkCancellation has a context that has ended already.
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
			ok, err := w.call(what+" with a context that has ended", func(ctx context.Context) error {
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
			w.wantEnd(p, " after "+what+" with a context that has ended", !undo && err == nil, before)
		})
	}
}

// wantClass checks that an error left what its class says.
func (w *world) wantClass(p pair, err error, before []string) {
	if class := plugins.ClassOf(err); err != nil && p.classified && class != plugins.Uncertain {
		w.wantResources(p.do+": an error that is "+class.String()+" leaves something", before)
	}
}

// wantEnd checks that the pair can be done, if it is to be, and undone, as if nothing had been.
func (w *world) wantEnd(p pair, when string, again bool, before []string) {
	if again && !w.done(p, when) {
		return
	}
	if w.undone(p, when) {
		w.wantResources(p.undo+": it leaves something"+when, before)
	}
}
