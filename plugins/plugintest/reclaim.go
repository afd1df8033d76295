package plugintest

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// checkProvisioning checks the provisioned volume, and that two provisioned volumes are
// independent.
func (c *checker) checkProvisioning() {
	provision := pairByName("Provision")
	c.inWorld(func(w *world) {
		before, ok := w.prepared(provision)
		if !ok {
			return
		}
		var refusal error
		w.ask("CanProvision", func() { refusal = w.caps.Provisioner.CanProvision(*w.Provision) })
		if refusal != nil {
			w.problem("CanProvision: refuses a volume that can be provisioned", "%v", refusal)
		}
		w.wantResources("CanProvision: has side effects", before)
		if !w.done(provision, "") {
			return
		}
		w.wantMade()
		first, after := w.made, w.resources()
		w.wantFoundAgain(first)
		w.wantAnother(first, after)
	})
}

// wantMade checks the PersistentVolume that Provision returned.
func (w *world) wantMade() {
	made, opts := w.made, w.Provision
	if made == nil {
		w.problem("Provision: returns no volume", "")
		return
	}
	spec := &plugins.Spec{PersistentVolume: made}
	if made.Name != opts.Name {
		w.problem("Provision: wrong name", "%q, want %q", made.Name, opts.Name)
	}
	if !w.supports(spec) {
		w.problem("Provision: returns an unsupported volume", "")
	}
	requested := opts.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if size := made.Spec.Capacity[corev1.ResourceStorage]; size.Cmp(requested) < 0 {
		w.problem("Provision: smaller than requested", "%v, want %v", size.String(), requested.String())
	}
	for _, mode := range opts.Claim.Spec.AccessModes {
		if !slices.Contains(made.Spec.AccessModes, mode) {
			w.problem("Provision: lacks an access mode", "%s", mode)
		}
	}
	if made.Spec.PersistentVolumeReclaimPolicy != opts.ReclaimPolicy {
		w.problem("Provision: wrong reclaim policy", "%s, want %s",
			made.Spec.PersistentVolumeReclaimPolicy, opts.ReclaimPolicy)
	}
	var refusal error
	w.ask("CanDelete", func() { refusal = w.caps.Deleter.CanDelete(spec) })
	if refusal != nil {
		w.problem("CanDelete: refuses a provisioned volume", "%v", refusal)
	}
}

// wantFoundAgain checks that the same options yield the same volume.
func (w *world) wantFoundAgain(first *corev1.PersistentVolume) {
	if first == nil || !w.done(pairByName("Provision"), " when repeated") || w.made == nil {
		return
	}
	name, _ := w.volumeName(&plugins.Spec{PersistentVolume: first})
	if again, _ := w.volumeName(&plugins.Spec{PersistentVolume: w.made}); again != name {
		w.problem("Provision: creates another volume when repeated", "%q, previously %q", again, name)
	}
}

// wantAnother checks that another name yields another volume, and that deleting that volume leaves
// the first.
func (w *world) wantAnother(first *corev1.PersistentVolume, after []string) {
	opts := *w.Provision
	opts.Name += "-other"
	opts.Claim = opts.Claim.DeepCopy()
	opts.Claim.Name += "-other"
	opts.Claim.UID += "-other"
	var other *corev1.PersistentVolume
	ok, err := w.call("Provision", func(ctx context.Context) (err error) {
		other, err = w.caps.Provisioner.Provision(ctx, opts)
		return err
	})
	if err != nil || !ok || other == nil || first == nil {
		w.problem("Provision: fails next to another volume", "%v", err)
		return
	}
	name, _ := w.volumeName(&plugins.Spec{PersistentVolume: first})
	if otherName, _ := w.volumeName(&plugins.Spec{PersistentVolume: other}); otherName == name {
		w.problem("Provision: returns one volume for two claims", "%q", name)
		return
	}
	_, err = w.call("Delete", func(ctx context.Context) error {
		return w.caps.Deleter.Delete(ctx, &plugins.Spec{PersistentVolume: other})
	})
	if err != nil {
		w.problem("Delete: fails next to another volume", "%v", err)
		return
	}
	w.wantResources("Delete: deletes another volume", after)
}

var errClaimed = errors.New("the volume is bound to another claim")

// checkRecycling checks that a recycled volume exists and is empty, and that a volume whose Acquire
// fails is unchanged.
func (c *checker) checkRecycling() {
	for _, refused := range []bool{false, true} {
		c.inWorld(func(w *world) {
			if w.Recycle != nil && w.caps.Recycler != nil {
				w.recycle(refused)
			}
		})
	}
}

func (w *world) recycle(refused bool) {
	if err := w.Recycle.Fill(); err != nil {
		w.checker.err = err
		return
	}
	before, full := w.resources(), w.contents()
	acquired, touched := 0, false
	opts := plugins.RecycleOptions{
		Volume: w.Recycle.Volume, Spec: w.Recycle.Spec,
		RecordEvent: func(string, string) {},
		Acquire: func(string) error {
			acquired++
			touched = compare(full, w.contents()) != ""
			if refused {
				return errClaimed
			}
			return nil
		},
	}
	ok, err := w.call("Recycle", func(ctx context.Context) error { return w.caps.Recycler.Recycle(ctx, opts) })
	if !ok {
		return
	}
	if acquired != 1 || touched {
		w.problem("Recycle: does not call Acquire once before it removes anything", "called %d times", acquired)
	}
	switch empty := compare(full, w.contents()) != "" && len(w.contents()) == 0; {
	case refused && err == nil:
		w.problem("Recycle: succeeds although Acquire failed", "")
	case refused:
		if diff := compare(full, w.contents()); diff != "" {
			w.problem("Recycle: removes contents although Acquire failed", "%s", diff)
		}
	case err != nil:
		w.problem("Recycle: fails", "%v", err)
	case !empty:
		w.problem("Recycle: leaves contents in the volume", "%q", w.contents())
	}
	w.wantResources("Recycle: leaks resources", before)
}

// contents returns the contents of the volume to recycle.
func (w *world) contents() []string {
	contents, err := w.Recycle.Contents()
	if err != nil {
		w.problem("Recycle: the volume no longer exists", "%v", err)
	}
	return contents
}
