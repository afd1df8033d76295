package resizer

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestModifyStatus changes the status of a claim that requests class target-vac.
func TestModifyStatus(t *testing.T) {
	const (
		inProgress = corev1.PersistentVolumeClaimModifyVolumeInProgress
		infeasible = corev1.PersistentVolumeClaimModifyVolumeInfeasible
		isPending  = corev1.PersistentVolumeClaimModifyVolumePending
	)
	before, now := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	type conditions = []corev1.PersistentVolumeClaimCondition
	condition := func(of corev1.PersistentVolumeClaimConditionType, reason, message string, at, since metav1.Time,
	) corev1.PersistentVolumeClaimCondition {
		return corev1.PersistentVolumeClaimCondition{
			Type: of, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: at, LastTransitionTime: since,
		}
	}
	resizing := condition(corev1.PersistentVolumeClaimResizing, "", "", before, before)
	begun := condition(conditionModifying, "", `Modifying volume to "target-vac" is in progress.`, before, before)
	again := func(message string) corev1.PersistentVolumeClaimCondition {
		return condition(conditionModifying, "", message, now, before)
	}
	failed := again(`Modifying volume to "target-vac" failed. Waiting for retry.`)
	refused := status.Error(codes.InvalidArgument, "Parameters in VolumeAttributesClass is invalid")
	refusal := condition(conditionModifyError, "InvalidArgument", "Parameters in VolumeAttributesClass is invalid", now, now)
	tests := []struct {
		name       string
		conditions conditions
		change     func(*corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim
		state      corev1.PersistentVolumeClaimModifyVolumeStatus // "": none
		current    *string
		want       conditions
	}{
		{
			name: "mark modify volume as in progress",
			change: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
				c.Status.ModifyVolumeStatus = nil
				return modificationBegun(c, now)
			},
			state: inProgress,
			want:  conditions{condition(conditionModifying, "", `Modifying volume to "target-vac" is in progress.`, now, now)},
		},
		{
			name: "mark modify volume as failed", conditions: conditions{begun},
			change: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
				return modificationFailed(c, now, status.Error(codes.Internal, "Final error"))
			},
			state: inProgress,
			want:  conditions{failed, condition(conditionModifyError, "Internal", "Final error", now, now)},
		},
		{
			name: "mark modify volume as uncertain", conditions: conditions{begun},
			change: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
				return modificationFailed(c, now, status.Error(codes.Aborted, "Non-final error"))
			},
			state: inProgress,
			want: conditions{
				again(`Modifying volume to "target-vac" is still in progress.`),
				condition(conditionModifyError, "Aborted", "Non-final error", now, now),
			},
		},
		{
			name: "mark modify volume as infeasible", conditions: conditions{begun},
			change: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
				return modificationFailed(c, now, refused)
			},
			state: infeasible, want: conditions{failed, refusal},
		},
		{
			name: "mark modify volume as pending", conditions: conditions{failed, refusal}, change: modificationPending,
			state: isPending, want: conditions{failed, refusal},
		},
		{
			name: "update modify volume status to completed",
			change: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
				return modificationFinished(c, "target-vac")
			},
			current: ptr.To("target-vac"),
		},
		{
			name: "update modify volume status to completed, and clear conditions", conditions: conditions{begun, resizing, refusal},
			change: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
				return modificationFinished(c, "target-vac")
			},
			current: ptr.To("target-vac"), want: conditions{resizing},
		},
		{
			name: "cancelled", conditions: conditions{failed, resizing, refusal}, change: modificationCancelled,
			state: inProgress, want: conditions{resizing, refusal},
		},
		{
			name: "the same error again", conditions: conditions{failed, condition(conditionModifyError, "InvalidArgument", "x", before, before)},
			change: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
				return modificationFailed(c, now, refused)
			},
			state: infeasible,
			want: conditions{
				failed, condition(conditionModifyError, "InvalidArgument", "Parameters in VolumeAttributesClass is invalid", now, before),
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{
				Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: ptr.To("target-vac")},
				Status: corev1.PersistentVolumeClaimStatus{
					Conditions: test.conditions,
					ModifyVolumeStatus: &corev1.ModifyVolumeStatus{
						Status: inProgress, TargetVolumeAttributesClassName: "target-vac",
					},
				},
			}
			got := test.change(claim.DeepCopy()).Status
			want := corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: test.current, Conditions: test.want}
			if test.state != "" {
				want.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{Status: test.state, TargetVolumeAttributesClassName: "target-vac"}
			}
			if len(got.Conditions) == 0 {
				got.Conditions = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClassifyModifyError: only InvalidArgument is infeasible, and an error that is not the driver's may
// hide a call that still runs.
func TestClassifyModifyError(t *testing.T) {
	for _, test := range []struct {
		err               error
		final, infeasible bool
	}{
		{errors.New("connection lost"), false, false},
		{status.Error(codes.Aborted, ""), false, false},
		{status.Error(codes.OutOfRange, ""), true, false},
		{status.Error(codes.NotFound, ""), true, false},
		{status.Error(codes.InvalidArgument, ""), true, true},
	} {
		if final, infeasible := classifyModifyError(test.err); final != test.final || infeasible != test.infeasible {
			t.Errorf("%v: final %v, infeasible %v; want %v, %v", test.err, final, infeasible, test.final, test.infeasible)
		}
	}
}
