package invariant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
)

// What is still to come for claims and volumes when nothing is left to happen.
var livenessRules = []Rule{
	{"L1", "a claim that could have a volume and waits", beginServed},
	{"L2", "a claim that should have gone, or a volume that should have been reclaimed", beginGone},
}

// inTree begins the name of a provisioner that is compiled into the PersistentVolume controller, or would be.
const inTree = "kubernetes.io/"

// serves tells whether a provisioner is at work: its back end is in the world, or its driver is installed.
func (c *Checker) serves(provisioner string) bool {
	if provisioner == "" {
		return false
	}
	if c.backend(provisioner) != nil {
		return true
	}
	if strings.HasPrefix(provisioner, inTree) {
		return false
	}
	_, ok := c.API.Get("csidrivers", "", provisioner)
	return ok
}

// beginServed: at rest every claim that a volume suits, or for which one can be made, is Bound, and each volume has the
// phase that its claimRef says. That a claim which waits has an event is not looked at: events may be lost.
func beginServed(c *Checker) watcher {
	return watcher{rest: func(report func(object, why string)) {
		var volumes []*corev1.PersistentVolume
		for _, obj := range c.API.List("persistentvolumes") {
			v := obj.(*corev1.PersistentVolume)
			volumes = append(volumes, v)
			if why := c.pendingPhase(v); why != "" {
				report("persistentvolumes/"+v.Name, why)
			}
		}
		for _, obj := range c.API.List("persistentvolumeclaims") {
			claim := obj.(*corev1.PersistentVolumeClaim)
			if claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimBound || claim.Status.Phase == corev1.ClaimLost {
				continue
			}
			if why := c.pendingForClaim(claim, volumes); why != "" {
				report("persistentvolumeclaims/"+claim.Namespace+"/"+claim.Name, why)
			}
		}
	}}
}

// pendingPhase says which phase a volume that has its claim, or needs none, has yet to get; "" when it is as it should be.
func (c *Checker) pendingPhase(v *corev1.PersistentVolume) string {
	if v.DeletionTimestamp != nil {
		return ""
	}
	if refUID(v) == "" {
		if v.Status.Phase != corev1.VolumeAvailable {
			return fmt.Sprintf("is %s and is to be Available, since no claim has it", v.Status.Phase)
		}
		return ""
	}
	claim := c.claimOfRef(v.Spec.ClaimRef)
	switch {
	case claim == nil || claim.Spec.VolumeName == "":
		return "" // L2, or it is the claim's turn
	case claim.Spec.VolumeName == v.Name && v.Status.Phase != corev1.VolumeBound:
		return fmt.Sprintf("is %s and is to be Bound to claim %s/%s", v.Status.Phase, claim.Namespace, claim.Name)
	case claim.Spec.VolumeName != v.Name && !isSurplus(v):
		return fmt.Sprintf("is reserved for claim %s/%s, which has volume %s", claim.Namespace, claim.Name, claim.Spec.VolumeName)
	default:
		return ""
	}
}

// isSurplus tells whether a volume is deleted when its claim takes another: one that was made for the claim.
func isSurplus(v *corev1.PersistentVolume) bool {
	return provisionerOf(v) != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// pendingForClaim says what a claim that is neither Bound nor Lost has yet to get; "" when there is nothing for it.
func (c *Checker) pendingForClaim(claim *corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume) string {
	v := c.volumeNamed(claim.Spec.VolumeName)
	switch completed := metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted); {
	case completed && v == nil:
		return "is to be Lost: its volume is not there"
	case completed:
		return "is to be Bound to volume " + v.Name + ", or Lost"
	case claim.Spec.VolumeName != "":
		return c.pendingByName(claim, v)
	}
	class, delayed := c.classOf(claim)
	for _, v := range volumes {
		if ref := v.Spec.ClaimRef; ref != nil {
			if storagehelpers.IsVolumeBoundToClaim(v, claim) && unsuitable(v, claim, class, false, true) == "" {
				return "is to be Bound to volume " + v.Name + ", which is reserved for it"
			}
			continue
		}
		if !delayed && unsuitable(v, claim, class, false, false) == "" {
			return "is to be Bound to volume " + v.Name + ", which suits it"
		}
	}
	return c.pendingByClass(claim)
}

// pendingByName is owedToClaim for a claim that asks for a volume by name.
func (c *Checker) pendingByName(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) string {
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	switch {
	case v == nil:
		return ""
	case v.Spec.ClaimRef == nil && unsuitable(v, claim, class, true, false) == "",
		v.Spec.ClaimRef != nil && storagehelpers.IsVolumeBoundToClaim(v, claim):
		return "is to be Bound to volume " + v.Name + ", which it asks for"
	default:
		return ""
	}
}

// pendingByClass is owedToClaim for a claim that no volume suits.
func (c *Checker) pendingByClass(claim *corev1.PersistentVolumeClaim) string {
	if !storagehelpers.PersistentVolumeClaimHasClass(claim) {
		d := &defaults{marked: map[string]metav1.Time{}, ever: map[string]bool{}}
		for _, obj := range c.API.List("storageclasses") {
			d.mark(obj.(*storagev1.StorageClass), false)
		}
		if d.current() != "" {
			return "is to get the default class, " + d.current()
		}
		return ""
	}
	name, delayed := c.classOf(claim)
	obj, ok := c.API.Get("storageclasses", "", name)
	if !ok || delayed && claim.Annotations[storagehelpers.AnnSelectedNode] == "" {
		return ""
	}
	class := obj.(*storagev1.StorageClass)
	if !c.serves(class.Provisioner) || !isOffered(claim, class) {
		return ""
	}
	return "is to get a volume from " + class.Provisioner
}

// isOffered tells whether a claim asks for nothing that a provisioner may refuse for good. What parameters a class may have
// is the driver's business.
func isOffered(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	return claim.Spec.DataSource == nil && claim.Spec.Selector == nil && len(class.Parameters) == 0 &&
		(claim.Spec.VolumeAttributesClassName == nil || *claim.Spec.VolumeAttributesClassName == "")
}

// classOf is the name of a claim's class, and whether that waits for a first consumer.
func (c *Checker) classOf(claim *corev1.PersistentVolumeClaim) (name string, delayed bool) {
	name = storagehelpers.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return "", false
	}
	obj, ok := c.API.Get("storageclasses", "", name)
	if !ok {
		return name, false
	}
	mode := obj.(*storagev1.StorageClass).VolumeBindingMode
	return name, mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
}

// beginGone: at rest a claim that is being deleted is gone, unless a scheduled pod uses it or somebody else keeps it; and a
// volume that lost its claim is Released, or Failed, or gone, as its policy says.
func beginGone(c *Checker) watcher {
	return watcher{rest: func(report func(object, why string)) {
		for _, obj := range c.API.List("persistentvolumeclaims") {
			claim := obj.(*corev1.PersistentVolumeClaim)
			if claim.DeletionTimestamp != nil && slices.Equal(claim.Finalizers, []string{finalizerClaim}) && !c.isUsed(claim) {
				report("persistentvolumeclaims/"+claim.Namespace+"/"+claim.Name, "is being deleted, and nobody uses it")
			}
		}
		for _, obj := range c.API.List("persistentvolumes") {
			v := obj.(*corev1.PersistentVolume)
			if why := c.pendingAfterRelease(v); why != "" {
				report("persistentvolumes/"+v.Name, why)
			}
		}
	}}
}

func (c *Checker) isUsed(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(c.API.List("pods"), func(obj fake.Object) bool {
		pod := obj.(*corev1.Pod)
		return pod.Namespace == claim.Namespace && pod.Spec.NodeName != "" && keeps(pod, claim)
	})
}

// pendingAfterRelease says what a volume that is being deleted, or has lost its claim, has yet to become; "" when that is all.
func (c *Checker) pendingAfterRelease(v *corev1.PersistentVolume) string {
	phase := v.Status.Phase
	if v.DeletionTimestamp != nil && phase != corev1.VolumeBound && slices.Equal(v.Finalizers, []string{finalizerVolume}) {
		return "is being deleted, and is not Bound"
	}
	if refUID(v) == "" {
		return ""
	}
	claim := c.claimOfRef(v.Spec.ClaimRef)
	switch {
	case claim != nil && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == v.Name || !isSurplus(v)):
		return ""
	case phase != corev1.VolumeReleased && phase != corev1.VolumeFailed:
		return fmt.Sprintf("is %s and is to be Released: its claim is gone", phase)
	case phase == corev1.VolumeFailed, v.Annotations[storagehelpers.AnnMigratedTo] != "":
		return ""
	}
	return c.pendingByPolicy(v)
}

// pendingByPolicy is owedToLeft for a volume that is Released. What nobody deletes or recycles is Failed.
func (c *Checker) pendingByPolicy(v *corev1.PersistentVolume) string {
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRecycle:
		if c.isNamedByPod(v.Spec.ClaimRef) {
			return "" // it waits for the pod
		}
		return "is Released and is to be recycled, or Failed"
	case corev1.PersistentVolumeReclaimDelete:
		driver, _ := identityOf(v)
		maker := cmp.Or(provisionerOf(v), driver)
		switch {
		case c.serves(maker) && c.serves(cmp.Or(driver, maker)):
			return "is Released and is to be deleted"
		case provisionerOf(v) == "" && v.Spec.CSI == nil, strings.HasPrefix(maker, inTree):
			return "is Released and is to be Failed: nobody deletes it"
		}
	}
	return ""
}

// isNamedByPod tells whether a pod uses a claim of the name in a claimRef, which is not there.
func (c *Checker) isNamedByPod(ref *corev1.ObjectReference) bool {
	if _, ok := c.API.Get("persistentvolumeclaims", ref.Namespace, ref.Name); ok {
		return false
	}
	return slices.ContainsFunc(c.API.List("pods"), func(obj fake.Object) bool {
		pod := obj.(*corev1.Pod)
		return pod.Namespace == ref.Namespace && !hasEnded(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
			return volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == ref.Name
		})
	})
}
