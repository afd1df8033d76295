package invariant

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
)

// What binds a claim and a volume.
var bindingRules = []Rule{
	{"I1", "two volumes bound to one claim", beginOneVolume},
	{"I2", "a volume that passes from one claim to another without being free between", beginOneClaim},
}

// beginOneVolume: each claim UID is in the claimRef of at most one volume that is Bound and that the claim names.
func beginOneVolume(c *Checker) watcher {
	bound := map[types.UID]string{} // claim UID: volume that is Bound to it and named by it
	look := func(v *corev1.PersistentVolume) {
		ref := v.Spec.ClaimRef
		if ref == nil || ref.UID == "" || v.Status.Phase != corev1.VolumeBound {
			return
		}
		obj, ok := c.API.Get("persistentvolumeclaims", ref.Namespace, ref.Name)
		if !ok || obj.GetUID() != ref.UID || obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName != v.Name {
			return
		}
		if other := bound[ref.UID]; other != "" && other != v.Name && c.boundTo(other, ref.UID) {
			c.report("I1", "claim %s/%s is bound to volume %s, and volume %s to the claim", ref.Namespace, ref.Name, other, v.Name)
		}
		bound[ref.UID] = v.Name
	}
	return watcher{
		commits: []string{"persistentvolumes"},
		commit: func(e fake.Commit) {
			if v, ok := e.After.(*corev1.PersistentVolume); ok && e.Type != "DELETED" {
				look(v)
			}
		},
	}
}

// boundTo tells whether a volume is Bound to a claim.
func (c *Checker) boundTo(volume string, claim types.UID) bool {
	obj, ok := c.API.Get("persistentvolumes", "", volume)
	if !ok {
		return false
	}
	v := obj.(*corev1.PersistentVolume)
	return v.Status.Phase == corev1.VolumeBound && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == claim
}

// beginOneClaim: a claimRef UID never changes to another one.
func beginOneClaim(c *Checker) watcher {
	return watcher{
		commits: []string{"persistentvolumes"},
		commit: func(e fake.Commit) {
			if e.Before == nil {
				return
			}
			was, is := e.Before.(*corev1.PersistentVolume).Spec.ClaimRef, e.After.(*corev1.PersistentVolume).Spec.ClaimRef
			if was != nil && is != nil && was.UID != "" && is.UID != "" && was.UID != is.UID {
				c.report("I2", "volume %s passed from claim %s/%s (%s) to claim %s/%s (%s)",
					e.After.GetName(), was.Namespace, was.Name, was.UID, is.Namespace, is.Name, is.UID)
			}
		},
	}
}
