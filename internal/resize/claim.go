package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Message is the message of the condition FileSystemResizePending.
//
// Upstream: pkg/volume/util MarkForFSResize (v1.36).
const Message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."

// conditions are the conditions about expansion.
var conditions = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimFileSystemResizePending, corev1.PersistentVolumeClaimResizing,
	corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
}

// Status returns the state of the volume's expansion. It is "" if the volume is not being expanded,
// or by an old resizer.
func Status(claim *corev1.PersistentVolumeClaim) corev1.ClaimResourceStatus {
	return claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
}

// Capacity returns the capacity in the claim's status.
func Capacity(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.Capacity[corev1.ResourceStorage]
}

// Allocated returns the size of the current or last expansion, or zero.
func Allocated(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.AllocatedResources[corev1.ResourceStorage]
}

// Recoverable reports whether the expansion is recorded in the claim's status. An old resizer does
// not record it.
//
// Upstream: pkg/volume/util/operationexecutor checkForRecoveryFromExpansion (v1.36).
func Recoverable(claim *corev1.PersistentVolumeClaim) bool {
	return Status(claim) != "" || claim.Status.AllocatedResources != nil
}

// WithStatus returns a copy of the claim with the given expansion state.
func WithStatus(claim *corev1.PersistentVolumeClaim, status corev1.ClaimResourceStatus) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	if claim.Status.AllocatedResourceStatuses == nil {
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] = status
	return claim
}

// WithAllocated returns a copy of the claim with the given allocated size.
func WithAllocated(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	if claim.Status.AllocatedResources == nil {
		claim.Status.AllocatedResources = corev1.ResourceList{}
	}
	claim.Status.AllocatedResources[corev1.ResourceStorage] = size
	return claim
}

// Finished returns a copy of the claim with the given capacity and without an expansion.
//
// Upstream: pkg/volume/util MarkFSResizeFinished, MarkNodeExpansionFinishedWithRecovery (v1.36).
func Finished(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *corev1.PersistentVolumeClaim {
	claim = WithConditions(claim, false)
	if claim.Status.Capacity == nil {
		claim.Status.Capacity = corev1.ResourceList{}
	}
	claim.Status.Capacity[corev1.ResourceStorage] = size
	delete(claim.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
	if len(claim.Status.AllocatedResourceStatuses) == 0 {
		claim.Status.AllocatedResourceStatuses = nil
	}
	return claim
}

// Condition returns a condition that is true since the given time.
func Condition(
	of corev1.PersistentVolumeClaimConditionType, since metav1.Time, message string,
) corev1.PersistentVolumeClaimCondition {
	return corev1.PersistentVolumeClaimCondition{
		Type: of, Status: corev1.ConditionTrue, LastTransitionTime: since, Message: message,
	}
}

// WithConditions returns a copy of the claim with the wanted conditions about expansion. If keep is
// set, it also keeps the existing ones. An existing condition with the same status keeps its
// message and time. Other conditions stay.
//
// Upstream: pkg/volume/util MergeResizeConditionOnPVC (v1.36).
func WithConditions(
	claim *corev1.PersistentVolumeClaim, keep bool, wanted ...corev1.PersistentVolumeClaimCondition,
) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	var merged []corev1.PersistentVolumeClaimCondition
	for _, existing := range claim.Status.Conditions {
		i := slices.IndexFunc(wanted,
			func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == existing.Type })
		switch {
		case !slices.Contains(conditions, existing.Type), i < 0 && keep, i >= 0 && wanted[i].Status == existing.Status:
			merged = append(merged, existing)
		case i >= 0:
			merged = append(merged, wanted[i])
		}
	}
	for _, c := range wanted {
		if !slices.ContainsFunc(merged,
			func(existing corev1.PersistentVolumeClaimCondition) bool { return existing.Type == c.Type }) {
			merged = append(merged, c)
		}
	}
	claim.Status.Conditions = merged
	return claim
}
