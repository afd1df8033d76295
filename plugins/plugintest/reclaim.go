package plugintest

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// checkProvisioning checks what is made, and that two volumes that are made do not disturb one another.
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
			w.problem("CanProvision: it refuses what can be made", "%v", refusal)
		}
		w.wantResources("CanProvision: it leaves something", before)
		if !w.done(provision, "") {
			return
		}
		w.wantMade()
		first, after := w.made, w.resources()
		w.wantFoundAgain(first)
		w.wantAnother(first, after)
	})
}

// wantMade checks the PersistentVolume that stands for what was made.
func (w *world) wantMade() {
	made, opts := w.made, w.Provision
	if made == nil {
		w.problem("Provision: it returns no volume", "")
		return
	}
	spec := &plugins.Spec{PersistentVolume: made}
	if made.Name != opts.Name {
		w.problem("Provision: the volume has another name", "%q, want %q", made.Name, opts.Name)
	}
	if !w.supports(spec) {
		w.problem("Provision: the volume is not supported", "")
	}
	asked := opts.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if size := made.Spec.Capacity[corev1.ResourceStorage]; size.Cmp(asked) < 0 {
		w.problem("Provision: the volume is smaller than was asked for", "%v, want %v", size.String(), asked.String())
	}
	for _, mode := range opts.Claim.Spec.AccessModes {
		if !slices.Contains(made.Spec.AccessModes, mode) {
			w.problem("Provision: the volume lacks an access mode", "%s", mode)
		}
	}
	if made.Spec.PersistentVolumeReclaimPolicy != opts.ReclaimPolicy {
		w.problem("Provision: the volume has another reclaim policy", "%s, want %s",
			made.Spec.PersistentVolumeReclaimPolicy, opts.ReclaimPolicy)
	}
	var refusal error
	w.ask("CanDelete", func() { refusal = w.caps.Deleter.CanDelete(spec) })
	if refusal != nil {
		w.problem("CanDelete: it refuses what was made", "%v", refusal)
	}
}

// wantFoundAgain checks that the same options give the same volume.
func (w *world) wantFoundAgain(first *corev1.PersistentVolume) {
	if first == nil || !w.done(pairByName("Provision"), " the second time") || w.made == nil {
		return
	}
	was, _ := w.volumeName(&plugins.Spec{PersistentVolume: first})
	if is, _ := w.volumeName(&plugins.Spec{PersistentVolume: w.made}); is != was {
		w.problem("Provision: it makes another volume the second time", "%q, and before %q", is, was)
	}
}

// wantAnother checks that another name gives another volume, and that deleting that leaves the first.
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
		w.problem("Provision: it fails beside another volume", "%v", err)
		return
	}
	was, _ := w.volumeName(&plugins.Spec{PersistentVolume: first})
	if is, _ := w.volumeName(&plugins.Spec{PersistentVolume: other}); is == was {
		w.problem("Provision: it gives one volume to two claims", "%q", is)
		return
	}
	_, err = w.call("Delete", func(ctx context.Context) error {
		return w.caps.Deleter.Delete(ctx, &plugins.Spec{PersistentVolume: other})
	})
	if err != nil {
		w.problem("Delete: it fails beside another volume", "%v", err)
		return
	}
	w.wantResources("Delete: it is not only its own volume that it takes away", after)
}

var errClaimed = errors.New("the volume is somebody's by now")

// checkRecycling checks that a recycled volume is there and empty, and one that is somebody's by then is as it was.
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
	begun, touched := 0, false
	opts := plugins.RecycleOptions{
		Volume: w.Recycle.Volume, Spec: w.Recycle.Spec,
		RecordEvent: func(string, string) {},
		Acquire: func(string) error {
			begun++
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
	if begun != 1 || touched {
		w.problem("Recycle: it does not ask once before it removes anything", "asked %d times", begun)
	}
	switch empty := compare(full, w.contents()) != "" && len(w.contents()) == 0; {
	case refused && err == nil:
		w.problem("Recycle: it succeeds with a volume that is somebody's", "")
	case refused:
		if diff := compare(full, w.contents()); diff != "" {
			w.problem("Recycle: it removes what is somebody's", "%s", diff)
		}
	case err != nil:
		w.problem("Recycle: it fails", "%v", err)
	case !empty:
		w.problem("Recycle: it leaves what was in the volume", "%q", w.contents())
	}
	w.wantResources("Recycle: it leaves something", before)
}

// contents is what is in the volume that is recycled.
func (w *world) contents() []string {
	contents, err := w.Recycle.Contents()
	if err != nil {
		w.problem("Recycle: the volume is not there", "%v", err)
	}
	return contents
}
