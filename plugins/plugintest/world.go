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

// taskName is the name of the tasks in which the plugin is called.
const taskName = "plugintest"

// A world is a World during a check.
type world struct {
	*World
	*checker
	caps    plugins.Capabilities
	stepped *sim.Stepped             // nil: the host is live
	device  string                   // as returned by Attach
	options plugins.MountOptions     // without DevicePath
	made    *corev1.PersistentVolume // as returned by Provision; nil: unknown
}

// mountOptions returns the options for mounting the volume.
func (w *world) mountOptions() plugins.MountOptions {
	options := w.options
	options.DevicePath = w.device
	return options
}

// An invocation is a call of the plugin.
type invocation struct {
	err      error
	panicked any
	done     atomic.Bool
}

// start calls the plugin in a task of its process.
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

// call calls the plugin. It returns when the call has returned and the world is at rest. A panic,
// or a call that does not return, is a violation; then ok is false.
func (w *world) call(what string, call func(ctx context.Context) error) (ok bool, err error) {
	f := w.start(call)
	err = w.Host.Wait(w.ctx, what+" to return", f.done.Load)
	switch {
	case err != nil:
		w.problem(what+": does not return", "%v", err)
		return false, err
	case f.panicked != nil:
		w.problem(what+": panics", "%v", f.panicked)
		return false, fmt.Errorf("panic: %v", f.panicked)
	}
	w.rest()
	return true, f.err
}

// ask makes a call that cannot fail, and reports whether it returned.
func (w *world) ask(what string, call func()) (ok bool) {
	ok, _ = w.call(what, func(context.Context) error {
		call()
		return nil
	})
	return ok
}

// rest runs a stepped world until it is at rest.
func (w *world) rest() {
	if w.stepped == nil {
		return
	}
	if err := w.stepped.Run(); err != nil {
		w.problem("the world does not come to rest", "%v", err)
	}
}

// resources returns what exists outside the process.
func (w *world) resources() []string {
	lines, err := w.Resources()
	if err != nil {
		w.problem("Resources fails", "%v", err)
	}
	return lines
}

// wantResources reports whether exactly the wanted resources exist; otherwise rule is violated.
func (w *world) wantResources(rule string, want []string) bool {
	diff := compare(want, w.resources())
	if diff != "" {
		w.problem(rule, "%s", diff)
	}
	return diff == ""
}

// restart restarts the process, and reports whether that succeeded.
func (w *world) restart() bool {
	process, plugin, err := w.Restart()
	if err != nil {
		w.checker.err = fmt.Errorf("restart the process: %w", err)
		return false
	}
	w.Process, w.Plugin = process, plugin
	w.made = nil
	w.findCapabilities()
	w.rest()
	return true
}

// inputs returns a copy of what the plugin is given.
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

// compareInputs reports a violation if the plugin modified its arguments.
func (w *world) compareInputs(before []any) {
	if after := inputs(w.World); !apiequality.Semantic.DeepEqual(before, after) {
		w.problem("Plugin: modifies its arguments", "")
	}
}
