package resize

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestConditions checks that conditions are merged as upstream does.
func TestConditions(t *testing.T) {
	const (
		resizing = corev1.PersistentVolumeClaimResizing
		failed   = corev1.PersistentVolumeClaimNodeResizeError
		other    = corev1.PersistentVolumeClaimVolumeModifyingVolume
	)
	has := func(of corev1.PersistentVolumeClaimConditionType, message string) corev1.PersistentVolumeClaimCondition {
		return Condition(of, metav1.Time{}, message)
	}
	type list = []corev1.PersistentVolumeClaimCondition
	tests := []struct {
		name   string
		before list
		keep   bool
		wanted list
		want   list
	}{
		{"a first one", nil, false, list{has(failed, "x")}, list{has(failed, "x")}},
		{
			"the same again keeps its message",
			list{has(failed, "x")},
			false,
			list{has(failed, "y")},
			list{has(failed, "x")},
		},
		{"another one in its place", list{has(resizing, "")}, false, list{has(failed, "x")}, list{has(failed, "x")}},
		{
			"an additional one",
			list{has(resizing, "")},
			true,
			list{has(failed, "x")},
			list{has(resizing, ""), has(failed, "x")},
		},
		{
			"all gone but what is about something else",
			list{has(other, ""), has(failed, "x")},
			false, nil,
			list{has(other, "")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Conditions: tt.before}}
			got := WithConditions(claim, tt.keep, tt.wanted...)
			if diff := cmp.Diff(tt.want, got.Status.Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.before, claim.Status.Conditions); diff != "" {
				t.Errorf("the claim itself has changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDifference checks that a patch names the version it is based on, and that it is empty if
// nothing changes.
func TestDifference(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", ResourceVersion: "7"}}
	begun := WithStatus(claim, corev1.PersistentVolumeClaimNodeResizeInProgress)
	for _, tt := range []struct {
		name   string
		is     *corev1.PersistentVolumeClaim
		anyhow bool
		want   string
	}{
		{"no change", claim.DeepCopy(), false, ""},
		{
			"a status", begun, false,
			`{"metadata":{"resourceVersion":"7"},"status":{"allocatedResourceStatuses":{"storage":"NodeResizeInProgress"}}}`,
		},
		{
			"a status, whatever else was written", begun, true,
			`{"status":{"allocatedResourceStatuses":{"storage":"NodeResizeInProgress"}}}`,
		},
	} {
		patch, err := difference(claim, tt.is, tt.anyhow)
		if err != nil || string(patch) != tt.want {
			t.Errorf("%s: %s (%v), want %s", tt.name, patch, err, tt.want)
		}
	}
}
