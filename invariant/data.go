package invariant

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim/trace"
)

// data is I8 at work: when a volume is marked Released, and when a back end is told to delete it or what is in it, no claim
// is there that its PersistentVolume means, unless the claim is bound to another; and it is not deleted if it is to be
// retained, as far as whoever deletes it could know.
//
// No request to the API server is one with a call of a plugin. Whoever asked for the volume just before, in the strand that
// makes the call, and was told that no claim has it, could not know what others have done since: another controller that
// is at work at the same time, for one.
type data struct {
	*Checker
	handles         byHandle
	reads           map[volumeRead]readResult
	claimRefWriters map[types.UID]string // the component that wrote a volume's claimRef last
}

// volumeRead is a strand's last request for a volume, and looked what it told.
type volumeRead struct{ actor, volume string }

type readResult struct {
	unclaimed bool // it is there no more, or was a claim's that is gone
	retained  bool
}

func beginData(c *Checker) watcher {
	d := &data{c, byHandle{}, map[volumeRead]readResult{}, map[types.UID]string{}}
	w := onVolumes(d.observe)
	w.writes, w.write = []string{"persistentvolumes"}, d.write
	w.request, w.call = d.request, d.call
	w.event = func(r trace.Record) {
		maps.DeleteFunc(d.reads, func(l volumeRead, _ readResult) bool { return endsProcess(r, componentOf(l.actor)) })
	}
	return w
}

// ownerOf is the claim that a volume's claimRef means, nil where it is not there or has another volume.
func (c *Checker) ownerOf(v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	claim := c.claimOfRef(v.Spec.ClaimRef)
	if claim == nil || claim.Spec.VolumeName != "" && claim.Spec.VolumeName != v.Name {
		return nil
	}
	return claim
}

func (d *data) observe(before, after *corev1.PersistentVolume) {
	d.handles.observe(before, after)
	if before == nil || after == nil || before.Status.Phase == after.Status.Phase || after.Status.Phase != corev1.VolumeReleased {
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
			d.report("I8", "%s %s the data of volume %s, which is claim %s/%s's", r.Task, call.verb, name, claim.Namespace, claim.Name)
		}
		if isRetained(v) && d.knewRetained(r, v, call.ofPlugin, !looked || last.retained) {
			d.report("I8", "%s %s the data of volume %s, which is to be retained", r.Task, call.verb, name)
		}
	}
}

// knewRetained tells whether a component could know that a volume is to be retained: from its cache, or, where it calls a
// plugin in an operation beside its syncs, from the API server.
func (d *data) knewRetained(r trace.Record, v *corev1.PersistentVolume, operation, toldSo bool) bool {
	if operation {
		return toldSo
	}
	return !d.hadListed(r, "persistentvolumes") || d.knew(r, v.Name, "persistentvolumes/"+v.Name, revisionOf(v.ResourceVersion))
}
