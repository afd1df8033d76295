package invariant

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// data is the state of I8. When a volume is marked Released, or a backend is called to delete it or
// its content, the claim of its PersistentVolume must not exist, unless that is bound to another
// volume. A volume with policy Retain must not be deleted, as far as the caller could know.
//
// A request to the API server and a call of a plugin are not atomic. A task that read the volume
// just before its call, and found it unclaimed, could not know of later writes, such as those of
// another active controller.
type data struct {
	*Checker
	handles         byHandle
	reads           map[volumeRead]readResult
	claimRefWriters map[types.UID]string // the component that last wrote a volume's claimRef
}

// A volumeRead identifies a task's last read of a volume. A readResult is what it returned.
type volumeRead struct{ actor, volume string }

type readResult struct {
	unclaimed bool // it does not exist, or its claim does not
	retained  bool
}

func beginData(c *Checker) watcher {
	d := &data{c, c.volumesByHandle(), reuse.Map[volumeRead, readResult](c.Reuse), reuse.Map[types.UID, string](c.Reuse)}
	w := onVolumes(d.observe)
	w.writes, w.write = volumesOnly, d.write
	w.request, w.call = d.request, d.call
	w.event = func(r trace.Record) {
		maps.DeleteFunc(d.reads, func(l volumeRead, _ readResult) bool { return endsProcess(r, componentOf(l.actor)) })
	}
	return w
}

// ownerOf returns the claim of a volume's claimRef; nil if it does not exist or has another volume.
func (c *Checker) ownerOf(v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	claim := c.claimOfRef(v.Spec.ClaimRef)
	if claim == nil || claim.Spec.VolumeName != "" && claim.Spec.VolumeName != v.Name {
		return nil
	}
	return claim
}

func (d *data) observe(before, after *corev1.PersistentVolume) {
	if before == nil || after == nil || before.Status.Phase == after.Status.Phase ||
		after.Status.Phase != corev1.VolumeReleased {
		return
	}
	if claim := d.ownerOf(after); claim != nil {
		d.report("I8", "volume %s was marked Released, and is claim %s/%s's", after.Name, claim.Namespace, claim.Name)
	}
}

func (d *data) write(r trace.Record) {
	before, _ := r.Before.(*corev1.PersistentVolume)
	if after, is := r.After.(*corev1.PersistentVolume); is && refUID(before) != refUID(after) {
		d.claimRefWriters[after.UID] = componentOf(r.Task)
	}
}

func (d *data) request(r trace.Record) {
	name, is := strings.CutPrefix(r.Object, "persistentvolumes/")
	if r.Verb != "get" || !is || r.Err != nil && !apierrors.IsNotFound(r.Err) {
		return
	}
	v := d.volumeNamed(name)
	d.reads[volumeRead{r.Task, name}] = readResult{
		unclaimed: v == nil || refUID(v) != "" && d.ownerOf(v) == nil,
		retained:  v != nil && isRetained(v),
	}
}

func isRetained(v *corev1.PersistentVolume) bool {
	return v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
}

func (d *data) call(r trace.Record) {
	call := dataCallOf(r)
	if !call.verb.removesData() || !tookEffect(r) {
		return
	}
	for _, name := range d.handles[call.key] {
		v := d.volumeNamed(name)
		if v == nil {
			continue
		}
		last, looked := d.reads[volumeRead{r.Task, name}]
		claim := d.ownerOf(v)
		if claim != nil && !(looked && last.unclaimed && d.claimRefWriters[v.UID] != componentOf(r.Task)) {
			d.report("I8", "%s %s the data of volume %s, which is claim %s/%s's", r.Task, call.verb,
				name, claim.Namespace, claim.Name)
		}
		if isRetained(v) && d.knewRetained(r, v, call.ofPlugin, !looked || last.retained) {
			d.report("I8", "%s %s the data of volume %s, whose policy is Retain", r.Task, call.verb, name)
		}
	}
}

// knewRetained reports whether a component could know that a volume has policy Retain: from its
// cache or, in an operation that calls a plugin outside its syncs, from the API server.
func (d *data) knewRetained(r trace.Record, v *corev1.PersistentVolume, operation, toldSo bool) bool {
	if operation {
		return toldSo
	}
	return !d.hadListed(r, "persistentvolumes") ||
		d.knew(r, v.Name, "persistentvolumes/"+v.Name, revisionOf(v.ResourceVersion))
}
