package plugintest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// taskName is the name of the strands in which the plugin is called.
const taskName = "plugintest"

// world is a World in which a check is made.
type world struct {
	*World
	*checker
	caps    plugins.Capabilities
	stepped *sim.Stepped             // nil: it is live
	device  string                   // what Attach returned
	options plugins.MountOptions     // how a pod uses the volume, but for the device
	made    *corev1.PersistentVolume // what Provision returned; nil: nothing is known to be there
}

// mountOptions is how a pod uses the volume.
func (w *world) mountOptions() plugins.MountOptions {
	use := w.options
	use.DevicePath = w.device
	return use
}

// invocation is a call of the plugin.
type invocation struct {
	err      error
	panicked any
	done     atomic.Bool
}

// start calls the plugin in a strand of its component.
func (w *world) start(call func(ctx context.Context) error) *invocation {
	f := &invocation{}
	w.Process.Spawn(taskName, func(ctx context.Context) {
		f.run(ctx, call)
		f.done.Store(true)
	})
	w.Process.Wake()
	return f
}

func (f *invocation) run(ctx context.Context, call func(ctx context.Context) error) {
	defer func() {
		f.panicked = recover()
		if sim.Unwinding(f.panicked) {
			panic(f.panicked)
		}
	}()
	f.err = call(ctx)
}

// call calls the plugin, and returns when that has ended and the world is at rest. That it panics, or does not end, is a
// problem: then ok is false.
func (w *world) call(what string, call func(ctx context.Context) error) (ok bool, err error) {
	f := w.start(call)
	err = w.Host.Wait(w.ctx, what+" to end", f.done.Load)
	switch {
	case err != nil:
		w.problem(what+": it does not end", "%v", err)
		return false, err
	case f.panicked != nil:
		w.problem(what+": it panics", "%v", f.panicked)
		return false, fmt.Errorf("panic: %v", f.panicked)
	}
	w.rest()
	return true, f.err
}

// ask calls what of the plugin only answers, and does not fail.
func (w *world) ask(what string, call func()) (ok bool) {
	ok, _ = w.call(what, func(context.Context) error {
		call()
		return nil
	})
	return ok
}

// rest lets a stepped world go on until nothing is left to happen.
func (w *world) rest() {
	if w.stepped == nil {
		return
	}
	if err := w.stepped.Run(); err != nil {
		w.problem("the world does not come to rest", "%v", err)
	}
}

// resources is what there is outside.
func (w *world) resources() []string {
	lines, err := w.Resources()
	if err != nil {
		w.problem("what is left cannot be listed", "%v", err)
	}
	return lines
}

// wantResources notes a problem if there is anything else outside than there should be.
func (w *world) wantResources(rule string, want []string) bool {
	diff := compare(want, w.resources())
	if diff != "" {
		w.problem(rule, "%s", diff)
	}
	return diff == ""
}

// restart lets the process begin anew.
func (w *world) restart() bool {
	component, plugin, err := w.Restart()
	if err != nil {
		w.checker.err = fmt.Errorf("let the process begin anew: %w", err)
		return false
	}
	w.Process, w.Plugin = component, plugin
	w.made = nil
	w.findCapabilities()
	w.rest()
	return true
}

// inputs is what the plugin is given, as it is now.
func inputs(w *World) []any {
	var all []any
	for _, spec := range w.Volumes {
		all = append(all, copySpec(spec))
	}
	if w.Recycle != nil {
		all = append(all, copySpec(w.Recycle.Spec))
	}
	for _, pod := range w.Pods {
		all = append(all, pod.DeepCopy())
	}
	if w.Provision != nil {
		opts := *w.Provision
		opts.Claim, opts.SelectedNode = opts.Claim.DeepCopy(), opts.SelectedNode.DeepCopy()
		opts.Parameters, opts.MountOptions = maps.Clone(opts.Parameters), slices.Clone(opts.MountOptions)
		all = append(all, opts)
	}
	return all
}

func copySpec(spec *plugins.Spec) plugins.Spec {
	return plugins.Spec{
		Volume: spec.Volume.DeepCopy(), PersistentVolume: spec.PersistentVolume.DeepCopy(), ReadOnly: spec.ReadOnly,
	}
}

// compareInputs notes a problem if the plugin changed what it was given.
func (w *world) compareInputs(was []any) {
	if is := inputs(w.World); !apiequality.Semantic.DeepEqual(was, is) {
		w.problem("Plugin: it changes what it is given", "")
	}
}
