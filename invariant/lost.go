package invariant

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about lost claims.
var lostRules = []builtIn{
	{"I6", "a claim marked Lost although its volume exists", beginLost},
}

// beginLost checks that no controller marks a claim Lost while the server has its volume with the
// claim's claimRef or without one. It violates the rule if it knew the volume at the begin of the
// sync, or had not listed volumes yet. A controller with a cache that lags may mark it; then the
// claim must recover, at the latest when the world is at rest.
func beginLost(c *Checker) watcher {
	lost := reuse.Map[types.UID, *corev1.PersistentVolumeClaim](c.Reuse) // claims marked Lost though their volume existed
	return watcher{
		writes: claimsOnly,
		write: func(r trace.Record) {
			claim := becameLost(r)
			if claim == nil {
				return
			}
			v := c.volumeNamed(claim.Spec.VolumeName)
			if v == nil || v.Spec.ClaimRef != nil && refUID(v) != claim.UID {
				return
			}
			lost[claim.UID] = claim
			key := claim.Namespace + "/" + claim.Name
			switch {
			case !c.hadListed(r, "persistentvolumes"):
				c.report("I6",
					"%s marked claim %s Lost before it listed volumes; the claim's volume is %s", r.Task, key, v.Name)
			case c.knewFromSync(r, key, "persistentvolumes/"+v.Name, revisionOf(v.ResourceVersion)):
				c.report("I6",
					"%s marked claim %s Lost although it knew that its volume %s exists", r.Task, key, v.Name)
			}
		},
		settled: func(report func(format string, a ...any)) {
			for _, claim := range sortedClaims(lost) {
				now := c.claimOfRef(&corev1.ObjectReference{
					Namespace: claim.Namespace,
					Name:      claim.Name, UID: claim.UID,
				})
				if now == nil || now.Status.Phase != corev1.ClaimLost {
					continue
				}
				v := c.volumeNamed(now.Spec.VolumeName)
				if v != nil && (v.Spec.ClaimRef == nil || refUID(v) == now.UID) {
					report("claim %s/%s stays Lost although its volume %s exists", now.Namespace, now.Name, v.Name)
				}
			}
		},
	}
}

// becameLost returns the claim that a write made Lost; nil if it did not.
func becameLost(r trace.Record) *corev1.PersistentVolumeClaim {
	if !tookEffect(r) {
		return nil
	}
	after, ok := r.After.(*corev1.PersistentVolumeClaim)
	if !ok || after.Status.Phase != corev1.ClaimLost || after.Spec.VolumeName == "" {
		return nil
	}
	if before, ok := r.Before.(*corev1.PersistentVolumeClaim); ok && before.Status.Phase == corev1.ClaimLost {
		return nil
	}
	return after
}

// sortedClaims returns the claims by namespace and name.
func sortedClaims(claims map[types.UID]*corev1.PersistentVolumeClaim) []*corev1.PersistentVolumeClaim {
	return slices.SortedFunc(maps.Values(claims), func(a, b *corev1.PersistentVolumeClaim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}
