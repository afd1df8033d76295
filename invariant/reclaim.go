package invariant

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/sim/trace"
)

// When a volume's data may go, and what must go with it.
var reclaimRules = []Rule{
	{"I8", "a volume released or its data deleted that a claim still has, or that is to be retained", beginData},
	{"I9", "a PersistentVolume deleted whose volume was not", beginDeletedFirst},
	{"I11", "a volume without its PersistentVolume, or the other way round, at rest", beginAccounted},
	{"I12", "the finalizer of a provisioned volume taken off, or never put on, before its data is gone", beginFinalizer},
}

// byHandle holds the names of the PersistentVolumes by handleKey.
type byHandle map[string][]string

func (h byHandle) observe(before, after *corev1.PersistentVolume) {
	switch {
	case before == nil && after != nil:
		if key := handleKey(after); key != "" {
			h[key] = append(h[key], after.Name)
		}
	case after == nil:
		key := handleKey(before)
		if h[key] = slices.DeleteFunc(h[key], func(name string) bool { return name == before.Name }); len(h[key]) == 0 {
			delete(h, key)
		}
	}
}

// deletions are the PersistentVolumes, by UID, whose volume was deleted while they were there.
type deletions struct {
	*Checker
	handles byHandle
	done    map[types.UID]bool
	callers map[string]bool // components that have volumes made or deleted
}

func newDeletions(c *Checker) *deletions {
	return &deletions{c, byHandle{}, map[types.UID]bool{}, map[string]bool{}}
}

func (d *deletions) call(r trace.Record) {
	call := dataCallOf(r)
	if call.verb != dataMade && call.verb != dataDeleted {
		return
	}
	d.callers[componentOf(r.Task)] = true
	if call.verb == dataMade || !tookEffect(r) {
		return
	}
	for _, name := range d.handles[call.key] {
		if v := d.volumeNamed(name); v != nil {
			d.done[v.UID] = true
		}
	}
}

// beginDeletedFirst: a component that has volumes made and deleted deletes only PersistentVolumes whose volume it, or one like it,
// has deleted before: the very one, not another of that name.
func beginDeletedFirst(c *Checker) watcher {
	d := newDeletions(c)
	w := onVolumes(d.handles.observe)
	w.call = d.call
	w.writes = []string{"persistentvolumes"}
	w.write = func(r trace.Record) {
		v, ok := r.After.(*corev1.PersistentVolume)
		if !ok || r.Verb != "delete" || !tookEffect(r) || !d.callers[componentOf(r.Task)] || handleKey(v) == "" || d.done[v.UID] {
			return
		}
		c.report("I9", "%s deleted PersistentVolume %s (%s), whose volume was not deleted before", r.Task, v.Name, v.UID)
	}
	return w
}

// provisionerOf is who made a volume for a claim; "" where nobody did.
func provisionerOf(v *corev1.PersistentVolume) string {
	return v.Annotations[storagehelpers.AnnDynamicallyProvisioned]
}

// Finalizers that keep a PersistentVolume until its volume is deleted.
//
// Upstream: component-helpers storage/volume PVDeletionInTreeProtectionFinalizer, PVDeletionProtectionFinalizer (v1.36).
const (
	finalizerInTree      = "kubernetes.io/pv-controller"
	finalizerProvisioner = "external-provisioner.volume.kubernetes.io/finalizer"
)

// lostFinalizer is the finalizer of those above that a write took off; "" where it took off none.
func lostFinalizer(before, after []string) string {
	for _, f := range before {
		if (f == finalizerInTree || f == finalizerProvisioner) && !slices.Contains(after, f) {
			return f
		}
	}
	return ""
}

// beginFinalizer: no controller takes the finalizer off a volume that was provisioned and is to be deleted before its data
// is gone; and none goes for want of one. Where the policy was ever another, the controller may have seen that.
func beginFinalizer(c *Checker) watcher {
	d := newDeletions(c)
	other := map[types.UID]bool{} // volumes whose policy was ever another
	kept := map[types.UID]bool{}  // volumes that ever had the finalizer
	w := onVolumes(func(before, after *corev1.PersistentVolume) {
		d.handles.observe(before, after)
		if after == nil {
			if !kept[before.UID] && !other[before.UID] && !d.done[before.UID] && provisionerOf(before) != "" && c.holds(before) {
				c.report("I12", "volume %s went without ever having had a finalizer, and its data is still there", before.Name)
			}
			return
		}
		if after.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			other[after.UID] = true
		}
		if lostFinalizer(after.Finalizers, nil) != "" {
			kept[after.UID] = true
		}
	})
	w.call = d.call
	w.writes = []string{"persistentvolumes"}
	w.write = func(r trace.Record) {
		after, ok := r.After.(*corev1.PersistentVolume)
		if !ok || !tookEffect(r) || !c.controllers.includes(r) || other[after.UID] || d.done[after.UID] || provisionerOf(after) == "" {
			return
		}
		before, ok := r.Before.(*corev1.PersistentVolume)
		if !ok || c.Devices != nil && !c.holds(after) {
			return
		}
		if f := lostFinalizer(before.Finalizers, finalizersAfter(r)); f != "" {
			c.report("I12", "%s took finalizer %s off volume %s, whose data is still there", r.Task, f, after.Name)
		}
	}
	return w
}

// accounting is I11 at work: at rest each volume of the back end has its PersistentVolume, and each PersistentVolume that was
// made for a claim and is not on its way out has its volume. Left out are volumes
//   - whose PersistentVolume went although they were to be retained, or by force: there it is an administrator's turn;
//   - whose making the driver said had failed for good, when it had not: a driver that errs so is believed;
//   - whose maker was killed before it created the PersistentVolume: nobody else knows of them, unless the claim is still
//     there when the maker begins anew;
//
// and PersistentVolumes that were to be deleted, and are not any more since their volume was.
type accounting struct {
	*Checker
	left   map[string]bool   // handleKey of volumes that nobody is to delete any more
	denied map[string]bool   // names of volumes of which the driver said last that there is none
	erased map[string]bool   // handleKey of volumes that were deleted
	making map[string]string // names of volumes that were made and have no PersistentVolume yet: their maker; "" if it was killed
}

func beginAccounted(c *Checker) watcher {
	a := &accounting{c, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]string{}}
	w := onVolumes(a.observe)
	w.call, w.event, w.settled = a.call, a.event, a.settle
	return w
}

func (a *accounting) observe(before, after *corev1.PersistentVolume) {
	switch {
	case before == nil:
		delete(a.left, handleKey(after))
		delete(a.making, after.Name)
	case after == nil && before.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete,
		after == nil && provisionerOf(before) == "",
		(after == nil || lostFinalizer(before.Finalizers, after.Finalizers) != "") && a.holds(before):
		a.left[handleKey(before)] = true
	}
}

func (a *accounting) call(r trace.Record) {
	call := dataCallOf(r)
	if call.verb == dataDeleted && tookEffect(r) {
		a.erased[call.key] = true
	}
	if call.verb != dataMade {
		return
	}
	a.denied[call.name] = isFinalForProvisioner(r.Err)
	if tookEffect(r) && a.volumeNamed(call.name) == nil {
		a.making[call.name] = componentOf(r.Task)
	}
}

func (a *accounting) event(r trace.Record) {
	for name, maker := range a.making {
		if endsProcess(r, maker) {
			a.making[name] = ""
		}
	}
}

func (a *accounting) settle(report func(format string, args ...any)) {
	accounted := map[string]bool{}
	for _, obj := range a.API.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		accounted[handleKey(v)] = true
		driver, handle := identityOf(v)
		spared := a.erased[handleKey(v)] && v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete
		if a.backend(driver) != nil && !a.holds(v) && provisionerOf(v) == driver && v.DeletionTimestamp == nil && !spared {
			report("PersistentVolume %s stands for volume %s, which is not there", v.Name, handle)
		}
	}
	for b := range a.backends() {
		for _, v := range b.Volumes() {
			key := b.Driver() + "/" + v.Handle
			maker, waits := a.making[v.Name]
			if !accounted[key] && !a.left[key] && !a.denied[v.Name] && (!waits || maker != "") {
				report("volume %s (%s) has no PersistentVolume", v.Handle, v.Name)
			}
		}
	}
}

// isFinalForProvisioner tells whether an error of a driver says that the call had no effect and will have none.
//
// Upstream: external-provisioner pkg/controller checkError (6.3.0).
func isFinalForProvisioner(err error) bool {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return false
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return false
	default:
		return true
	}
}
