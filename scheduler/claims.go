package scheduler

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/podclaims"
)

// objects is what a decision about a pod is made from. What is not there is nil.
type objects interface {
	claim(namespace, name string) *corev1.PersistentVolumeClaim
	volume(name string) *corev1.PersistentVolume
	class(name string) *storagev1.StorageClass
	inUse(claim *corev1.PersistentVolumeClaim, except types.UID) bool
}

// podClaims are a pod's claims, in the order of its volumes.
type podClaims struct {
	bound   []*corev1.PersistentVolumeClaim
	delayed []*corev1.PersistentVolumeClaim // unbound; the volume is made when a node is chosen
}

// claimsOf sorts a pod's claims out. The error, whose text is for users, says why the pod can run nowhere.
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

// checkClaim tells what keeps a claim from being used by a pod at all.
func checkClaim(pod *corev1.Pod, volume *corev1.Volume, claim *corev1.PersistentVolumeClaim, name string) error {
	switch {
	case claim == nil && volume.Ephemeral != nil:
		return fmt.Errorf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
	case claim == nil:
		return fmt.Errorf("persistentvolumeclaim %q not found", name)
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Errorf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
	case volume.Ephemeral != nil:
		return ephemeral.VolumeIsForPod(pod, claim)
	default:
		return nil
	}
}

// claimNames are the names of a pod's claims, each once.
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

// isBound tells whether a claim is bound and the binding is completed.
func isBound(claim *corev1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[storagehelpers.AnnBindCompleted]
	return claim.Spec.VolumeName != "" && completed
}

// isDelayed tells whether an unbound claim waits for its first consumer. One that names its volume does not.
func isDelayed(claim *corev1.PersistentVolumeClaim, from objects) bool {
	class := from.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
	return claim.Spec.VolumeName == "" && class != nil && class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// isNewer tells whether a is a later state of the same claim as b.
func isNewer(a, b *corev1.PersistentVolumeClaim) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	if err != nil {
		panic(fmt.Sprintf("scheduler: claim %s/%s: %v", a.Namespace, a.Name, err))
	}
	return a.UID == b.UID && order > 0
}
