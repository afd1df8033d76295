package invariant

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about binding a claim and a volume.
var bindingRules = []builtIn{
	{"I1", "two volumes bound to one claim", beginOneVolume},
	{"I2", "a volume rebound to another claim without being unbound in between", beginOneClaim},
	{"I3", "a claim bound to a volume that is not bound to it", beginBoundBothWays},
	{"I4", "a phase Bound without a binding", beginBoundPhase},
	{"I7", "a binding or a volume's source that changes", beginImmutable},
}

// Resources of the watchers of many rules. Worlds share the lists.
var (
	claimsOnly       = []string{"persistentvolumeclaims"}
	volumesOnly      = []string{"persistentvolumes"}
	claimsAndVolumes = []string{"persistentvolumeclaims", "persistentvolumes"}
)

// onVolumes returns a watcher with a function of a PersistentVolume before and after a commit.
// before is nil for a creation, after for a deletion.
func onVolumes(see func(before, after *corev1.PersistentVolume)) watcher {
	return watcher{commits: volumesOnly, volume: see}
}

// onClaims is onVolumes for claims.
func onClaims(see func(before, after *corev1.PersistentVolumeClaim)) watcher {
	return watcher{commits: claimsOnly, claim: see}
}

// onBoth merges the watchers of onClaims and onVolumes.
func onBoth(claims, volumes watcher) watcher {
	return watcher{commits: claimsAndVolumes, claim: claims.claim, volume: volumes.volume}
}

// observe calls the function of a watcher that a commit is for.
func (w *watcher) observe(e fake.Commit) {
	switch {
	case w.volume != nil && e.Resource == "persistentvolumes":
		before, _ := e.Before.(*corev1.PersistentVolume)
		after, _ := e.After.(*corev1.PersistentVolume)
		if e.Type == "DELETED" {
			after = nil
		}
		w.volume(before, after)
	case w.claim != nil && e.Resource == "persistentvolumeclaims":
		before, _ := e.Before.(*corev1.PersistentVolumeClaim)
		after, _ := e.After.(*corev1.PersistentVolumeClaim)
		if e.Type == "DELETED" {
			after = nil
		}
		w.claim(before, after)
	default:
		w.commit(e)
	}
}

// refUID returns the UID in a volume's claimRef; "" if there is none.
func refUID(v *corev1.PersistentVolume) types.UID {
	if v == nil || v.Spec.ClaimRef == nil {
		return ""
	}
	return v.Spec.ClaimRef.UID
}

// oneVolume is the state of I1: no claim has two volumes that are Bound to it and that it names, or
// that are both mounted.
type oneVolume struct {
	*Checker
	bound   map[types.UID]string   // claim UID: volume that is Bound to it and named by it
	sharing map[types.UID][]string // claim UID: volumes whose claimRef has it
	handles map[string]string      // handleKey: volume
}

func beginOneVolume(c *Checker) watcher {
	o := &oneVolume{c, reuse.Map[types.UID, string](c.Reuse), reuse.Map[types.UID, []string](c.Reuse), reuse.Map[string, string](c.Reuse)}
	w := onVolumes(o.observe)
	w.call = func(r trace.Record) {
		if strings.HasPrefix(r.Verb, "NodePublish") && tookEffect(r) {
			o.checkMounts(refUID(o.volumeNamed(o.handles[r.Object])))
		}
	}
	return w
}

func (o *oneVolume) observe(before, after *corev1.PersistentVolume) {
	if was := refUID(before); was != "" && was != refUID(after) {
		o.sharing[was] = slices.DeleteFunc(o.sharing[was], func(name string) bool { return name == before.Name })
		if len(o.sharing[was]) == 0 {
			delete(o.sharing, was)
		}
	}
	if after == nil {
		if key := handleKey(before); o.handles[key] == before.Name {
			delete(o.handles, key)
		}
		return
	}
	if before == nil {
		o.handles[handleKey(after)] = after.Name
	}
	uid := refUID(after)
	if uid != "" && uid != refUID(before) {
		o.sharing[uid] = append(o.sharing[uid], after.Name)
		o.checkMounts(uid)
	}
	if uid != "" && after.Status.Phase == corev1.VolumeBound {
		o.checkBound(after)
	}
}

func (o *oneVolume) checkBound(v *corev1.PersistentVolume) {
	ref := v.Spec.ClaimRef
	if o.bound[ref.UID] == v.Name {
		return
	}
	claim := o.claimOfRef(ref)
	if claim == nil || claim.Spec.VolumeName != v.Name {
		return
	}
	if other := o.volumeNamed(o.bound[ref.UID]); other != nil && refUID(other) == ref.UID &&
		other.Status.Phase == corev1.VolumeBound {
		o.report("I1", "claim %s/%s is bound to volume %s, and volume %s to the claim",
			ref.Namespace, ref.Name, other.Name, v.Name)
	}
	o.bound[ref.UID] = v.Name
}

// checkMounts checks the mounts of the volumes that share a claim, if there is more than one.
func (o *oneVolume) checkMounts(uid types.UID) {
	if o.Devices == nil || len(o.sharing[uid]) < 2 {
		return
	}
	isMounted := func(v *corev1.PersistentVolume) bool {
		return slices.ContainsFunc(o.Devices.Nodes(), func(node string) bool { return len(o.mountsOf(volumeAt(v, node))) > 0 })
	}
	first := ""
	for _, name := range o.sharing[uid] {
		v := o.volumeNamed(name)
		if v == nil || v.Spec.CSI == nil || !isMounted(v) {
			continue
		}
		if first != "" {
			ref := v.Spec.ClaimRef
			o.report("I1", "volumes %s and %s are both mounted, and both are for claim %s/%s", first,
				name, ref.Namespace, ref.Name)
		}
		first = name
	}
}

// beginOneClaim checks that a claimRef's UID never changes to another one.
func beginOneClaim(c *Checker) watcher {
	return onVolumes(func(before, after *corev1.PersistentVolume) {
		if was, is := refUID(before), refUID(after); was != "" && is != "" && was != is {
			from, to := before.Spec.ClaimRef, after.Spec.ClaimRef
			c.report("I2", "volume %s was rebound from claim %s/%s (%s) to claim %s/%s (%s)",
				after.Name, from.Namespace, from.Name, was, to.Namespace, to.Name, is)
		}
	})
}

// isCompleted reports whether a claim names a volume and is annotated as completely bound.
func isCompleted(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted)
}

// A reservation records for which claim a volume was last reserved.
type reservation struct{ volume, claim types.UID }

// beginBoundBothWays checks that the volume's claimRef has the claim's UID when the claim's binding
// is completed. As long as the claim exists and is not Lost, the volume must not be taken from it.
//
// A volume that was deleted and created again under its name between the writes of a binding is
// ignored: neither write could know. The claim then becomes Lost, or the binding is repaired.
func beginBoundBothWays(c *Checker) watcher {
	reserved := reuse.Map[string, reservation](c.Reuse) // by volume name; kept when the volume is deleted
	claims := onClaims(func(before, after *corev1.PersistentVolumeClaim) {
		if before == nil || after == nil || !isCompleted(after) || isCompleted(before) {
			return
		}
		v := c.volumeNamed(after.Spec.VolumeName)
		if v == nil || refUID(v) == after.UID {
			return
		}
		if last := reserved[v.Name]; last.claim == after.UID && last.volume != v.UID {
			return
		}
		c.report("I3", "claim %s/%s is bound to volume %s, %s", after.Namespace, after.Name, v.Name, holderOf(v))
	})
	volumes := onVolumes(func(before, after *corev1.PersistentVolume) {
		if after == nil {
			return
		}
		was, is := refUID(before), refUID(after)
		if is != "" {
			reserved[after.Name] = reservation{after.UID, is}
		}
		if was == "" || was == is {
			return
		}
		claim := c.claimOfRef(before.Spec.ClaimRef)
		if claim != nil && claim.Spec.VolumeName == after.Name && isCompleted(claim) &&
			claim.Status.Phase != corev1.ClaimLost {
			c.report("I3", "volume %s was taken from claim %s/%s, which is bound to it",
				after.Name, claim.Namespace, claim.Name)
		}
	})
	return onBoth(claims, volumes)
}

// holderOf describes the claim of a volume.
func holderOf(v *corev1.PersistentVolume) string {
	ref := v.Spec.ClaimRef
	switch {
	case ref == nil:
		return "which has no claimRef"
	case ref.UID == "":
		return "which is reserved by name alone, for " + ref.Namespace + "/" + ref.Name
	default:
		return "which belongs to claim " + ref.Namespace + "/" + ref.Name + " (" + string(ref.UID) + ")"
	}
}

// beginBoundPhase checks that a volume that becomes Bound has a claimRef with a UID. A claim that
// becomes Bound must be completely bound and have the volume's access modes and a capacity, which
// it keeps while it is Bound.
//
// A Bound volume may lack a claimRef: unbinding clears it with one write and the phase with the
// next. A user's edits of a volume's access modes or of the claim's annotation are ignored.
func beginBoundPhase(c *Checker) watcher {
	edited := reuse.Map[types.UID, bool](c.Reuse) // volumes whose access modes were changed
	volumes := onVolumes(func(before, after *corev1.PersistentVolume) {
		if after == nil || before == nil {
			return
		}
		if !slices.Equal(before.Spec.AccessModes, after.Spec.AccessModes) {
			edited[after.UID] = true
		}
		if after.Status.Phase == corev1.VolumeBound && before.Status.Phase != corev1.VolumeBound &&
			refUID(after) == "" {
			c.report("I4", "volume %s became Bound, %s", after.Name, holderOf(after))
		}
	})
	claims := onClaims(func(before, after *corev1.PersistentVolumeClaim) {
		if after == nil || before == nil || after.Status.Phase != corev1.ClaimBound {
			return
		}
		_, has := after.Status.Capacity[corev1.ResourceStorage]
		v := c.volumeNamed(after.Spec.VolumeName)
		switch {
		case !has || len(after.Status.AccessModes) == 0:
			c.report("I4", "claim %s/%s is Bound and has no capacity or no access modes", after.Namespace, after.Name)
		case before.Status.Phase == corev1.ClaimBound:
		case !isCompleted(after):
			c.report("I4", "claim %s/%s became Bound before its binding was completed", after.Namespace, after.Name)
		case v != nil && refUID(v) == after.UID && !edited[v.UID] &&
			!slices.Equal(v.Spec.AccessModes, after.Status.AccessModes):
			c.report("I4", "claim %s/%s became Bound with access modes %v, its volume %s has %v",
				after.Namespace, after.Name, after.Status.AccessModes, v.Name, v.Spec.AccessModes)
		}
	})
	return onBoth(claims, volumes)
}

// beginImmutable checks that a claim names one volume all its life, and that a volume's source
// never changes.
func beginImmutable(c *Checker) watcher {
	return watcher{
		commits: claimsAndVolumes,
		commit: func(e fake.Commit) {
			if e.Before == nil {
				return
			}
			switch was := e.Before.(type) {
			case *corev1.PersistentVolumeClaim:
				is := e.After.(*corev1.PersistentVolumeClaim)
				if was.Spec.VolumeName != "" && was.Spec.VolumeName != is.Spec.VolumeName {
					c.report("I7", "claim %s/%s named volume %s and now names %q", is.Namespace, is.Name,
						was.Spec.VolumeName, is.Spec.VolumeName)
				}
			case *corev1.PersistentVolume:
				is := e.After.(*corev1.PersistentVolume)
				if !sameSource(was, is) {
					c.report("I7", "volume %s now has another source", is.Name)
				}
			}
		},
	}
}

// sameSource reports whether two versions of a volume have the same source. Of a CSI source it
// compares the identity only, since secrets may be added.
func sameSource(a, b *corev1.PersistentVolume) bool {
	if a.Spec.CSI != nil && b.Spec.CSI != nil {
		return handleKey(a) == handleKey(b)
	}
	return equality.Semantic.DeepEqual(&a.Spec.PersistentVolumeSource, &b.Spec.PersistentVolumeSource)
}
