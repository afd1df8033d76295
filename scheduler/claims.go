package scheduler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/volsim/volsim/internal/resourceversion"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/podclaims"
)

// objects returns the API objects that a decision about a pod depends on. A missing object is nil.
type objects interface {
	claim(namespace, name string) *corev1.PersistentVolumeClaim
	volume(name string) *corev1.PersistentVolume
	class(name string) *storagev1.StorageClass
	inUse(claim *corev1.PersistentVolumeClaim, except types.UID) bool
}

// podClaims are a pod's claims, in the order of its volumes.
type podClaims struct {
	bound   []*corev1.PersistentVolumeClaim
	delayed []*corev1.PersistentVolumeClaim // unbound; provisioned when a node is chosen
}

// claimsOf classifies a pod's claims. The error, whose text is an event's message, says why no node
// is feasible.
//
// Upstream: plugins/volumebinding PreFilter, podHasPVCs, GetPodVolumeClaims (v1.36), to the letter.
func claimsOf(pod *corev1.Pod, from objects) (podClaims, error) {
	var claims podClaims
	immediate := false
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		name := podclaims.Name(pod, volume)
		if name == "" {
			continue
		}
		claim := from.claim(pod.Namespace, name)
		if err := checkClaim(pod, volume, claim, name); err != nil {
			return podClaims{}, err
		}
		switch {
		case isBound(claim):
			claims.bound = append(claims.bound, claim)
		case isDelayed(claim, from):
			claims.delayed = append(claims.delayed, claim)
		default:
			immediate = true
		}
	}
	if immediate {
		return podClaims{}, errors.New("pod has unbound immediate PersistentVolumeClaims")
	}
	return claims, nil
}

// checkClaim returns an error if a pod cannot use a claim.
func checkClaim(pod *corev1.Pod, volume *corev1.Volume, claim *corev1.PersistentVolumeClaim, name string) error {
	switch {
	case claim == nil && volume.Ephemeral != nil:
		return fmt.Errorf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
	case claim == nil:
		return fmt.Errorf("persistentvolumeclaim %q not found", name)
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Errorf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name,
			claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
	case volume.Ephemeral != nil:
		return ephemeral.VolumeIsForPod(pod, claim)
	default:
		return nil
	}
}

// claimNames returns the distinct names of a pod's claims.
func claimNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if name := podclaims.Name(pod, &pod.Spec.Volumes[i]); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func namesOf(claims []*corev1.PersistentVolumeClaim) []string {
	var names []string
	for _, claim := range claims {
		if !slices.Contains(names, claim.Name) {
			names = append(names, claim.Name)
		}
	}
	return names
}

// isBound reports whether a claim is bound and the binding is completed.
func isBound(claim *corev1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[storagehelpers.AnnBindCompleted]
	return claim.Spec.VolumeName != "" && completed
}

// isDelayed reports whether an unbound claim waits for its first consumer. A claim that names its
// volume does not.
func isDelayed(claim *corev1.PersistentVolumeClaim, from objects) bool {
	class := from.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
	return claim.Spec.VolumeName == "" && class != nil && class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// isNewer reports whether a is a later version of the same claim as b.
func isNewer(a, b *corev1.PersistentVolumeClaim) bool {
	order, err := resourceversion.Compare(a.ResourceVersion, b.ResourceVersion)
	if err != nil {
		panic(fmt.Sprintf("scheduler: claim %s/%s: %v", a.Namespace, a.Name, err))
	}
	return a.UID == b.UID && order > 0
}
