package statefulset

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/internal/workload"
)

// claimName returns the name of the claim that an ordinal has of a template.
func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", template.Name, set.Name, ordinal)
}

// newClaim returns the claim that an ordinal has of a template. It has the labels of the set's
// selector, and no owner.
//
// Upstream: pkg/controller/statefulset getPersistentVolumeClaims (v1.36).
func newClaim(
	set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int,
) *corev1.PersistentVolumeClaim {
	claim := template.DeepCopy()
	claim.Name, claim.Namespace = claimName(set, template, ordinal), set.Namespace
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	maps.Copy(claim.Labels, set.Spec.Selector.MatchLabels)
	return claim
}

// A retention says when the claims of a set are deleted.
type retention struct{ whenDeleted, whenScaled bool }

func retentionOf(set *appsv1.StatefulSet) retention {
	const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil {
		return retention{}
	}
	return retention{policy.WhenDeleted == remove, policy.WhenScaled == remove}
}

// owners returns which of set and pod must own the pod's claims. A claim outlives the pod whose
// ordinal the set still has.
func (r retention) owners(set *appsv1.StatefulSet, pod *corev1.Pod) (bySet, byPod bool) {
	byPod = r.whenScaled && !inRange(set, ordinalOf(pod))
	return r.whenDeleted && !byPod, byPod
}

// refersTo reports whether a reference has the kind and the name of an object.
func refersTo(ref *metav1.OwnerReference, obj metav1.Object, kind schema.GroupVersionKind) bool {
	apiVersion, name := kind.ToAPIVersionAndKind()
	return ref.APIVersion == apiVersion && ref.Kind == name && ref.Name == obj.GetName()
}

// isStale reports whether a claim belongs to an object of this name that is gone.
//
// Upstream: pkg/controller/statefulset hasStaleOwnerRef (v1.36).
func isStale(claim *corev1.PersistentVolumeClaim, obj metav1.Object, kind schema.GroupVersionKind) bool {
	i := slices.IndexFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return refersTo(&ref, obj, kind) })
	return i >= 0 && claim.OwnerReferences[i].UID != obj.GetUID()
}

func ownedBy(claim *corev1.PersistentVolumeClaim, obj metav1.Object) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == obj.GetUID() })
}

// hasOtherController reports whether something but the set and the pod controls a claim that the
// set's policy is about.
//
// Upstream: pkg/controller/statefulset hasUnexpectedController (v1.36).
func hasOtherController(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	if retentionOf(set) == (retention{}) {
		return false
	}
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		switch {
		case refersTo(&ref, set, setKind):
			return ref.UID != set.UID
		case refersTo(&ref, pod, podKind):
			return ref.UID != pod.UID
		default:
			return ref.Controller != nil && *ref.Controller
		}
	})
}

// hasRightOwners reports whether a claim's references are as the set's policy wants them. Claims of
// an earlier set or pod of the name are left to the garbage collector.
//
// Upstream: pkg/controller/statefulset isClaimOwnerUpToDate (v1.36).
func hasRightOwners(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	if isStale(claim, set, setKind) || isStale(claim, pod, podKind) {
		return true
	}
	if hasOtherController(claim, set, pod) {
		return !ownedBy(claim, set) && !ownedBy(claim, pod)
	}
	if slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return (ref.UID == set.UID || ref.UID == pod.UID) && (ref.Controller == nil || !*ref.Controller)
	}) {
		return false
	}
	bySet, byPod := retentionOf(set).owners(set, pod)
	return ownedBy(claim, set) == bySet && ownedBy(claim, pod) == byPod
}

// withRightOwners returns a claim with the references that the set's policy wants.
//
// Upstream: pkg/controller/statefulset updateClaimOwnerRefForSetAndPod (v1.36).
func withRightOwners(
	claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod,
) *corev1.PersistentVolumeClaim {
	other := hasOtherController(claim, set, pod)
	claim = claim.DeepCopy()
	claim.OwnerReferences = slices.DeleteFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return refersTo(&ref, set, setKind) || refersTo(&ref, pod, podKind)
	})
	if other {
		return claim
	}
	bySet, byPod := retentionOf(set).owners(set, pod)
	if bySet && !ownedBy(claim, set) {
		claim.OwnerReferences = append(claim.OwnerReferences, workload.ControllerRef(set, setKind))
	}
	if byPod && !ownedBy(claim, pod) {
		claim.OwnerReferences = append(claim.OwnerReferences, workload.ControllerRef(pod, podKind))
	}
	return claim
}
