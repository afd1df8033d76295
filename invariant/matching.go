package invariant

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/reuse"
)

// Rules about the volume that a claim gets.
var matchingRules = []builtIn{
	{"I5", "a volume reserved for a claim that it does not suit", beginSuitable},
}

// suitable is the state of I5: when a volume is reserved for a claim's UID, it suits the claim. The
// write has the volume's resourceVersion, so the volume is as the controller saw it. Everything
// relevant in the claim is immutable except the class, which may be assigned at any time: a claim
// that got one may have been matched without it.
//
// A request by name relaxes the rule. Nothing is checked if both name each other, or if a claim
// that was bound gets its volume back. A volume that names the claim may differ in class and
// selector. A volume that the claim names may differ in the selector.
type suitable struct {
	*Checker
	classified map[types.UID]bool // claims that got a class after their creation
}

func beginSuitable(c *Checker) watcher {
	s := &suitable{c, reuse.Map[types.UID, bool](c.Reuse)}
	return onBoth(onClaims(s.observeClaim), onVolumes(s.observeVolume))
}

func (s *suitable) observeClaim(before, after *corev1.PersistentVolumeClaim) {
	switch {
	case after == nil:
		delete(s.classified, before.UID)
	case before == nil:
	case storagehelpers.GetPersistentVolumeClaimClass(before) != storagehelpers.GetPersistentVolumeClaimClass(after):
		s.classified[after.UID] = true
	case after.Spec.VolumeName != before.Spec.VolumeName:
		s.checkMode(after)
	}
}

// checkMode checks a claim that now names a volume. A claim that did not request a volume never
// gets one of the other mode, even if that is reserved for it by name.
func (s *suitable) checkMode(claim *corev1.PersistentVolumeClaim) {
	v := s.volumeNamed(claim.Spec.VolumeName)
	if v != nil && refUID(v) == claim.UID && storagehelpers.CheckVolumeModeMismatches(&claim.Spec, &v.Spec) {
		s.report("I5", "claim %s/%s was bound to volume %s, which is of another volume mode",
			claim.Namespace, claim.Name, v.Name)
	}
}

func (s *suitable) observeVolume(before, after *corev1.PersistentVolume) {
	if before == nil || after == nil || refUID(after) == "" || refUID(before) != "" {
		return
	}
	claim := s.claimOfRef(after.Spec.ClaimRef)
	if claim == nil {
		return
	}
	if ref := before.Spec.ClaimRef; ref != nil && (ref.Namespace != claim.Namespace || ref.Name != claim.Name) {
		s.report("I5", "volume %s was reserved for claim %s/%s, but by name it was reserved for %s/%s",
			after.Name, claim.Namespace, claim.Name, ref.Namespace, ref.Name)
		return
	}
	names, named := claim.Spec.VolumeName == after.Name, before.Spec.ClaimRef != nil
	if names && (named || metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted)) {
		return
	}
	why := unsuitable(before, claim, storagehelpers.GetPersistentVolumeClaimClass(claim), names, named)
	if why != "" && s.classified[claim.UID] {
		why = unsuitable(before, claim, "", names, named)
	}
	if why != "" {
		s.report("I5", "volume %s was reserved for claim %s/%s, but %s", after.Name, claim.Namespace, claim.Name, why)
	}
}

// unsuitable returns why a volume does not suit a claim of a class; "" if it does. names says that
// the claim names the volume, named that the volume names the claim.
//
// Upstream: component-helpers storage/volume FindMatchingVolume,
// pkg/controller/volume/persistentvolume checkVolumeSatisfyClaim (v1.36).
func unsuitable(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
	class string, names, named bool,
) string {
	capacity, request := v.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	is := storagehelpers.GetPersistentVolumeClass(v)
	switch {
	case v.DeletionTimestamp != nil:
		return "it is being deleted"
	case capacity.Value() < request.Value():
		return fmt.Sprintf("it holds %s where %s are asked for", capacity.String(), request.String())
	case storagehelpers.CheckVolumeModeMismatches(&claim.Spec, &v.Spec):
		return "it is of another volume mode"
	case ptr.Deref(v.Spec.VolumeAttributesClassName, "") != ptr.Deref(claim.Spec.VolumeAttributesClassName, ""):
		return "it is of another attributes class"
	case !storagehelpers.CheckAccessModes(claim, v):
		return "it lacks an access mode that is asked for"
	case !named && is != class:
		return fmt.Sprintf("it is of class %q, not %q", is, class)
	case !named && !names && v.Status.Phase != corev1.VolumeAvailable:
		return fmt.Sprintf("it is %s, not Available", v.Status.Phase)
	case !named && !names && !selects(claim, v):
		return "the claim's selector does not select it"
	default:
		return ""
	}
}

// selects reports whether a claim's selector selects a volume.
func selects(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	if claim.Spec.Selector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(v.Labels))
}
