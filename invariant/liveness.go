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

// Rules about what claims and volumes must become once the world is at rest.
var livenessRules = []builtIn{
	{"L1", "a claim that waits although a volume is available", beginServed},
	{"L2", "a claim that should be gone, or a volume that should be reclaimed", beginGone},
}

// inTree is the prefix of provisioners that are compiled into the PersistentVolume controller, or
// would be.
const inTree = "kubernetes.io/"

// serves reports whether a provisioner is active: its backend is in the world, or its driver is
// installed.
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

// beginServed checks that, at rest, every claim that has a suitable or provisionable volume is
// Bound, and that each volume has the phase of its claimRef. It does not check the events of
// waiting claims: events may be lost.
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
			if claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimBound ||
				claim.Status.Phase == corev1.ClaimLost {
				continue
			}
			if why := c.pendingForClaim(claim, volumes); why != "" {
				report("persistentvolumeclaims/"+claim.Namespace+"/"+claim.Name, why)
			}
		}
	}}
}

// pendingPhase returns the phase that a volume with a claim, or without need of one, has yet to
// get; "" if none.
func (c *Checker) pendingPhase(v *corev1.PersistentVolume) string {
	if v.DeletionTimestamp != nil {
		return ""
	}
	if refUID(v) == "" {
		if v.Status.Phase != corev1.VolumeAvailable {
			return fmt.Sprintf("is %s and must be Available, since no claim has it", v.Status.Phase)
		}
		return ""
	}
	claim := c.claimOfRef(v.Spec.ClaimRef)
	switch {
	case claim == nil || claim.Spec.VolumeName == "":
		return "" // L2, or the claim must change first
	case claim.Spec.VolumeName == v.Name && v.Status.Phase != corev1.VolumeBound:
		return fmt.Sprintf("is %s and must be Bound to claim %s/%s", v.Status.Phase, claim.Namespace, claim.Name)
	case claim.Spec.VolumeName != v.Name && !isSurplus(v):
		return fmt.Sprintf("is reserved for claim %s/%s, which has volume %s", claim.Namespace,
			claim.Name, claim.Spec.VolumeName)
	default:
		return ""
	}
}

// isSurplus reports whether a volume is deleted when its claim takes another: it was provisioned
// for the claim.
func isSurplus(v *corev1.PersistentVolume) bool {
	return provisionerOf(v) != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// pendingForClaim returns what a claim that is neither Bound nor Lost has yet to get; "" if
// nothing.
func (c *Checker) pendingForClaim(claim *corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume) string {
	v := c.volumeNamed(claim.Spec.VolumeName)
	switch completed := metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted); {
	case completed && v == nil:
		return "must be Lost: its volume does not exist"
	case completed:
		return "must be Bound to volume " + v.Name + ", or Lost"
	case claim.Spec.VolumeName != "":
		return c.pendingByName(claim, v)
	}
	class, delayed := c.classOf(claim)
	for _, v := range volumes {
		if ref := v.Spec.ClaimRef; ref != nil {
			if storagehelpers.IsVolumeBoundToClaim(v, claim) && unsuitable(v, claim, class, false, true) == "" {
				return "must be Bound to volume " + v.Name + ", which is reserved for it"
			}
			continue
		}
		if !delayed && unsuitable(v, claim, class, false, false) == "" {
			return "must be Bound to volume " + v.Name + ", which suits it"
		}
	}
	return c.pendingByClass(claim)
}

// pendingByName is pendingForClaim for a claim that requests a volume by name.
func (c *Checker) pendingByName(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) string {
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	switch {
	case v == nil:
		return ""
	case v.Spec.ClaimRef == nil && unsuitable(v, claim, class, true, false) == "",
		v.Spec.ClaimRef != nil && storagehelpers.IsVolumeBoundToClaim(v, claim):
		return "must be Bound to volume " + v.Name + ", which it asks for"
	default:
		return ""
	}
}

// pendingByClass is pendingForClaim for a claim without a suitable volume.
func (c *Checker) pendingByClass(claim *corev1.PersistentVolumeClaim) string {
	if !storagehelpers.PersistentVolumeClaimHasClass(claim) {
		d := &defaults{marked: map[string]metav1.Time{}, ever: map[string]bool{}}
		for _, obj := range c.API.List("storageclasses") {
			d.mark(obj.(*storagev1.StorageClass), false)
		}
		if d.current() != "" {
			return "must get the default class, " + d.current()
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
	return "must get a volume from " + class.Provisioner
}

// isOffered reports whether a claim requests nothing that a provisioner may refuse permanently. A
// driver may refuse any parameter of a class.
func isOffered(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	return claim.Spec.DataSource == nil && claim.Spec.Selector == nil && len(class.Parameters) == 0 &&
		(claim.Spec.VolumeAttributesClassName == nil || *claim.Spec.VolumeAttributesClassName == "")
}

// classOf returns the name of a claim's class, and whether that waits for a first consumer.
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

// beginGone checks that, at rest, a claim that is being deleted is gone, unless a scheduled pod
// uses it or another finalizer protects it. A volume that lost its claim must be Released, Failed
// or deleted, as its policy says.
func beginGone(c *Checker) watcher {
	return watcher{rest: func(report func(object, why string)) {
		for _, obj := range c.API.List("persistentvolumeclaims") {
			claim := obj.(*corev1.PersistentVolumeClaim)
			if claim.DeletionTimestamp != nil && slices.Equal(claim.Finalizers, []string{finalizerClaim}) &&
				!c.isUsed(claim) {
				report("persistentvolumeclaims/"+claim.Namespace+"/"+claim.Name, "is being deleted and not in use")
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

// pendingAfterRelease returns what a volume that is being deleted, or has lost its claim, has yet
// to become; "" if nothing.
func (c *Checker) pendingAfterRelease(v *corev1.PersistentVolume) string {
	phase := v.Status.Phase
	if v.DeletionTimestamp != nil && phase != corev1.VolumeBound &&
		slices.Equal(v.Finalizers, []string{finalizerVolume}) {
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
		return fmt.Sprintf("is %s and must be Released: its claim is gone", phase)
	case phase == corev1.VolumeFailed, v.Annotations[storagehelpers.AnnMigratedTo] != "":
		return ""
	}
	return c.pendingByPolicy(v)
}

// pendingByPolicy is pendingAfterRelease for a Released volume. A volume that cannot be deleted or
// recycled must become Failed.
func (c *Checker) pendingByPolicy(v *corev1.PersistentVolume) string {
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRecycle:
		if c.isNamedByPod(v.Spec.ClaimRef) {
			return "" // it waits for the pod
		}
		return "is Released and must be recycled, or Failed"
	case corev1.PersistentVolumeReclaimDelete:
		driver, _ := identityOf(v)
		maker := cmp.Or(provisionerOf(v), driver)
		switch {
		case c.serves(maker) && c.serves(cmp.Or(driver, maker)):
			return "is Released and must be deleted"
		case provisionerOf(v) == "" && v.Spec.CSI == nil, strings.HasPrefix(maker, inTree):
			return "is Released and must be Failed: no component deletes it"
		}
	}
	return ""
}

// isNamedByPod reports whether a pod uses a claim with the name in a claimRef, and that claim does
// not exist.
func (c *Checker) isNamedByPod(ref *corev1.ObjectReference) bool {
	if _, ok := c.API.Get("persistentvolumeclaims", ref.Namespace, ref.Name); ok {
		return false
	}
	return slices.ContainsFunc(c.API.List("pods"), func(obj fake.Object) bool {
		pod := obj.(*corev1.Pod)
		return pod.Namespace == ref.Namespace && !hasEnded(pod) &&
			slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
				return volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == ref.Name
			})
	})
}
