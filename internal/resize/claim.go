package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Message is what the condition FileSystemResizePending tells.
//
// Upstream: pkg/volume/util MarkForFSResize (v1.36).
const Message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."

// conditions are those about growing.
var conditions = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimFileSystemResizePending, corev1.PersistentVolumeClaimResizing,
	corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
}

// Status is how far growing the claim's volume is; "" where it does not grow, or an old resizer makes it.
func Status(claim *corev1.PersistentVolumeClaim) corev1.ClaimResourceStatus {
	return claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
}

// Capacity is how large the claim says its volume is.
func Capacity(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.Capacity[corev1.ResourceStorage]
}

// Allocated is the size that is being made, or was made last; zero where there is none.
func Allocated(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.AllocatedResources[corev1.ResourceStorage]
}

// Recoverable tells whether a resizer grows the volume that writes down how far it is. One that does not is old, and grows on
// without it.
//
// Upstream: pkg/volume/util/operationexecutor checkForRecoveryFromExpansion (v1.36).
func Recoverable(claim *corev1.PersistentVolumeClaim) bool {
	return Status(claim) != "" || claim.Status.AllocatedResources != nil
}

// WithStatus is the claim, with growing its volume so far.
func WithStatus(claim *corev1.PersistentVolumeClaim, status corev1.ClaimResourceStatus) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	if claim.Status.AllocatedResourceStatuses == nil {
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] = status
	return claim
}

// WithAllocated is the claim, with a size that is being made.
func WithAllocated(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	if claim.Status.AllocatedResources == nil {
		claim.Status.AllocatedResources = corev1.ResourceList{}
	}
	claim.Status.AllocatedResources[corev1.ResourceStorage] = size
	return claim
}

// Finished is the claim, with a volume of that size which does not grow.
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

// Condition is one that is true, as of a time.
func Condition(of corev1.PersistentVolumeClaimConditionType, since metav1.Time, message string) corev1.PersistentVolumeClaimCondition {
	return corev1.PersistentVolumeClaimCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: since, Message: message}
}

// WithConditions is the claim, with these conditions about growing, and with those it had if they are to be kept. One that
// it had with the same status stays as it was, with its message. Conditions about something else stay.
//
// Upstream: pkg/volume/util MergeResizeConditionOnPVC (v1.36).
func WithConditions(claim *corev1.PersistentVolumeClaim, keep bool, wanted ...corev1.PersistentVolumeClaimCondition) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	var merged []corev1.PersistentVolumeClaimCondition
	for _, has := range claim.Status.Conditions {
		i := slices.IndexFunc(wanted, func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == has.Type })
		switch {
		case !slices.Contains(conditions, has.Type), i < 0 && keep, i >= 0 && wanted[i].Status == has.Status:
			merged = append(merged, has)
		case i >= 0:
			merged = append(merged, wanted[i])
		}
	}
	for _, c := range wanted {
		if !slices.ContainsFunc(merged, func(has corev1.PersistentVolumeClaimCondition) bool { return has.Type == c.Type }) {
			merged = append(merged, c)
		}
	}
	claim.Status.Conditions = merged
	return claim
}
