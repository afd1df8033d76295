package invariant

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about the reclaim of volumes.
var reclaimRules = []builtIn{
	{"I8", "a volume released or its data deleted while a claim has it, or against policy Retain", beginData},
	{"I9", "a PersistentVolume deleted before its volume", beginDeletedFirst},
	{"I11", "a volume without its PersistentVolume at rest, or vice versa", beginAccounted},
	{"I12", "the finalizer of a provisioned volume removed, or never added, before its data is gone", beginFinalizer},
}

// byHandle maps a handleKey to the names of its PersistentVolumes since the rules began. Rules share
// the map of their Checker; see volumesByHandle.
type byHandle map[string][]string

// volumesByHandle returns the map, which has observed each commit before the rules do.
func (c *Checker) volumesByHandle() byHandle {
	if c.handles == nil {
		c.handles = byHandle{}
	}
	return c.handles
}

func (h byHandle) observe(before, after *corev1.PersistentVolume, deleted bool) {
	switch {
	case before == nil && !deleted:
		if key := handleKey(after); key != "" {
			h[key] = append(h[key], after.Name)
		}
	case deleted:
		key := handleKey(before)
		if h[key] = slices.DeleteFunc(h[key], func(name string) bool { return name == before.Name }); len(h[key]) == 0 {
			delete(h, key)
		}
	}
}

// deletions records the PersistentVolumes, by UID, whose volume was deleted while they existed.
type deletions struct {
	*Checker
	handles byHandle
	done    map[types.UID]bool
	callers map[string]bool // components that provision or delete volumes
}

func newDeletions(c *Checker) *deletions {
	return &deletions{c, c.volumesByHandle(), reuse.Map[types.UID, bool](c.Reuse), reuse.Map[string, bool](c.Reuse)}
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

// beginDeletedFirst checks that a provisioning component deletes a PersistentVolume only after it
// or another one has deleted its volume: that of this very object, not of another of the same name.
func beginDeletedFirst(c *Checker) watcher {
	d := newDeletions(c)
	w := watcher{call: d.call, writes: volumesOnly}
	w.write = func(r trace.Record) {
		v, ok := r.After.(*corev1.PersistentVolume)
		if !ok || r.Verb != "delete" || !tookEffect(r) || !d.callers[componentOf(r.Task)] || handleKey(v) == "" ||
			d.done[v.UID] {
			return
		}
		c.report("I9", "%s deleted PersistentVolume %s (%s), whose volume was not deleted before", r.Task,
			v.Name, v.UID)
	}
	return w
}

// provisionerOf returns the provisioner of a volume; "" if it was not provisioned dynamically.
func provisionerOf(v *corev1.PersistentVolume) string {
	return v.Annotations[storagehelpers.AnnDynamicallyProvisioned]
}

// Finalizers that protect a PersistentVolume until its volume is deleted.
//
// Upstream: component-helpers storage/volume PVDeletionInTreeProtectionFinalizer,
// PVDeletionProtectionFinalizer (v1.36).
const (
	finalizerInTree      = "kubernetes.io/pv-controller"
	finalizerProvisioner = "external-provisioner.volume.kubernetes.io/finalizer"
)

// lostFinalizer returns which of these finalizers a write removed; "" if none.
func lostFinalizer(before, after []string) string {
	for _, f := range before {
		if (f == finalizerInTree || f == finalizerProvisioner) && !slices.Contains(after, f) {
			return f
		}
	}
	return ""
}

// beginFinalizer checks that no controller removes the finalizer of a provisioned volume with
// policy Delete before its data is gone, and that no such volume is deleted without ever having had
// the finalizer. Volumes whose policy ever was another are ignored: the controller may have seen
// that.
func beginFinalizer(c *Checker) watcher {
	d := newDeletions(c)
	other := reuse.Map[types.UID, bool](c.Reuse) // volumes whose policy ever was another
	kept := reuse.Map[types.UID, bool](c.Reuse)  // volumes that ever had the finalizer
	w := onVolumes(func(before, after *corev1.PersistentVolume) {
		if after == nil {
			if !kept[before.UID] && !other[before.UID] && !d.done[before.UID] && provisionerOf(before) != "" &&
				c.holds(before) {
				c.report("I12",
					"volume %s was deleted without ever having had a finalizer, and its data still exists", before.Name)
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
	w.writes = volumesOnly
	w.write = func(r trace.Record) {
		after, ok := r.After.(*corev1.PersistentVolume)
		if !ok || !tookEffect(r) || !c.controllers.includes(r) || other[after.UID] || d.done[after.UID] ||
			provisionerOf(after) == "" {
			return
		}
		before, ok := r.Before.(*corev1.PersistentVolume)
		if !ok || c.Devices != nil && !c.holds(after) {
			return
		}
		if f := lostFinalizer(before.Finalizers, finalizersAfter(r)); f != "" {
			c.report("I12", "%s removed finalizer %s from volume %s, whose data still exists", r.Task, f, after.Name)
		}
	}
	return w
}

// accounting is the state of I11: at rest each volume of a backend has its PersistentVolume, and
// each PersistentVolume that was provisioned and is not being deleted has its volume. Ignored are
// volumes
//   - whose PersistentVolume was deleted although they are retained, or by force: an administrator must act;
//   - whose creation the driver reported as finally failed, wrongly: callers trust the driver;
//   - whose provisioner was killed before it created the PersistentVolume: no other component knows of them, unless the
//     claim still exists when the provisioner restarts;
//
// and PersistentVolumes that had policy Delete, and lost it after their volume was deleted.
type accounting struct {
	*Checker
	left   map[string]bool   // handleKey of volumes that no component has to delete any more
	denied map[string]bool   // names of volumes that the driver last reported as finally failed
	erased map[string]bool   // handleKey of deleted volumes
	making map[string]string // names of volumes without PersistentVolume yet: their provisioner; "" if it was killed
}

func beginAccounted(c *Checker) watcher {
	a := &accounting{c, reuse.Map[string, bool](c.Reuse), reuse.Map[string, bool](c.Reuse), reuse.Map[string, bool](c.Reuse), reuse.Map[string, string](c.Reuse)}
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
		if a.backend(driver) != nil && !a.holds(v) && provisionerOf(v) == driver && v.DeletionTimestamp == nil &&
			!spared {
			report("PersistentVolume %s refers to volume %s, which does not exist", v.Name, handle)
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

// isFinalForProvisioner reports whether an error of a driver says that the call had no effect and
// will have none.
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
