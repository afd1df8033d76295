package resizer

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The conditions about a modification.
const (
	conditionModifying   = corev1.PersistentVolumeClaimVolumeModifyingVolume
	conditionModifyError = corev1.PersistentVolumeClaimVolumeModifyVolumeError
)

// requestedClass returns the VolumeAttributesClass in a claim's spec, or "".
func requestedClass(claim *corev1.PersistentVolumeClaim) string {
	return ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
}

// isModifying reports whether a claim's status says that its volume is being modified.
func isModifying(claim *corev1.PersistentVolumeClaim) bool {
	s := claim.Status.ModifyVolumeStatus
	return s != nil && s.Status == corev1.PersistentVolumeClaimModifyVolumeInProgress
}

// targetClass returns the class to which a volume is, or was last, modified; "" if none.
func targetClass(claim *corev1.PersistentVolumeClaim) string {
	if s := claim.Status.ModifyVolumeStatus; s != nil {
		return s.TargetVolumeAttributesClassName
	}
	return ""
}

// withModifyStatus returns a copy of the claim with a state of its modification. The target stays.
func withModifyStatus(
	claim *corev1.PersistentVolumeClaim, state corev1.PersistentVolumeClaimModifyVolumeStatus,
) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	if claim.Status.ModifyVolumeStatus == nil {
		claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{}
	}
	claim.Status.ModifyVolumeStatus.Status = state
	return claim
}

// modificationPending returns a copy of the claim whose modification waits for its class.
// Conditions and target stay: they are those of the last modification.
//
// Upstream: external-resizer pkg/modifycontroller markControllerModifyVolumeStatus (2.3.0).
func modificationPending(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return withModifyStatus(claim, corev1.PersistentVolumeClaimModifyVolumePending)
}

// modificationBegun returns a copy of the claim whose volume is being modified to the requested
// class.
//
// Upstream: external-resizer pkg/modifycontroller markControllerModifyVolumeStatus (2.3.0).
func modificationBegun(claim *corev1.PersistentVolumeClaim, now metav1.Time) *corev1.PersistentVolumeClaim {
	claim = withModifyStatus(claim, corev1.PersistentVolumeClaimModifyVolumeInProgress)
	claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName = requestedClass(claim)
	claim.Status.Conditions = mergeConditions(claim.Status.Conditions, modifying(now, targetClass(claim), "is in progress."))
	return claim
}

// modificationFailed returns a copy of the claim with the error of its driver. An error after which
// the driver may continue leaves the modification in progress.
//
// Upstream: external-resizer pkg/modifycontroller markControllerModifyVolumeStatus (2.3.0).
func modificationFailed(claim *corev1.PersistentVolumeClaim, now metav1.Time, err error) *corev1.PersistentVolumeClaim {
	state, progress := corev1.PersistentVolumeClaimModifyVolumeInProgress, "is still in progress."
	final, infeasible := classifyModifyError(err)
	if infeasible {
		state = corev1.PersistentVolumeClaimModifyVolumeInfeasible
	}
	if final {
		progress = "failed. Waiting for retry."
	}
	said := status.Convert(err)
	claim = withModifyStatus(claim, state)
	claim.Status.Conditions = mergeConditions(claim.Status.Conditions, modifying(now, targetClass(claim), progress),
		corev1.PersistentVolumeClaimCondition{
			Type: conditionModifyError, Status: corev1.ConditionTrue, LastProbeTime: now,
			Reason: said.Code().String(), Message: said.Message(),
		})
	return claim
}

// modificationFinished returns a copy of the claim whose volume has the attributes of the target.
//
// Upstream: external-resizer pkg/modifycontroller markControllerModifyVolumeCompleted (2.3.0).
func modificationFinished(claim *corev1.PersistentVolumeClaim, target string) *corev1.PersistentVolumeClaim {
	claim = withoutConditions(claim, conditionModifying, conditionModifyError)
	claim.Status.ModifyVolumeStatus = nil
	claim.Status.CurrentVolumeAttributesClassName = &target
	return claim
}

// modificationCancelled returns a copy of the claim without the condition that it is being modified.
// The state of the last modification stays.
//
// Upstream: external-resizer pkg/modifycontroller markRolledBack (2.3.0).
func modificationCancelled(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return withoutConditions(claim, conditionModifying)
}

func modifying(now metav1.Time, target, progress string) corev1.PersistentVolumeClaimCondition {
	return corev1.PersistentVolumeClaimCondition{
		Type: conditionModifying, Status: corev1.ConditionTrue, LastProbeTime: now,
		Message: fmt.Sprintf("Modifying volume to %q %s", target, progress),
	}
}

func hasCondition(claim *corev1.PersistentVolumeClaim, of corev1.PersistentVolumeClaimConditionType) bool {
	return slices.ContainsFunc(claim.Status.Conditions,
		func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == of })
}

func withoutConditions(
	claim *corev1.PersistentVolumeClaim, types ...corev1.PersistentVolumeClaimConditionType,
) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions,
		func(c corev1.PersistentVolumeClaimCondition) bool { return slices.Contains(types, c.Type) })
	return claim
}

// mergeConditions returns conditions with the wanted ones in place of those of their types. Each
// changes at its probe time unless it has the status and reason of its predecessor.
//
// Upstream: external-resizer pkg/util MergePVCConditions (2.3.0).
func mergeConditions(conditions []corev1.PersistentVolumeClaimCondition, wanted ...corev1.PersistentVolumeClaimCondition,
) []corev1.PersistentVolumeClaimCondition {
	merged := slices.Clone(conditions)
	for _, c := range wanted {
		c.LastTransitionTime = c.LastProbeTime
		at := slices.IndexFunc(merged,
			func(existing corev1.PersistentVolumeClaimCondition) bool { return existing.Type == c.Type })
		if at < 0 {
			merged = append(merged, c)
			continue
		}
		if merged[at].Status == c.Status && merged[at].Reason == c.Reason {
			c.LastTransitionTime = merged[at].LastTransitionTime
		}
		merged[at] = c
	}
	return merged
}
