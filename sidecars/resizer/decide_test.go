package resizer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func list(size string) corev1.ResourceList {
	if size == "" {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// TestDecide has a claim of 1Gi that asks for more, and a volume.
func TestDecide(t *testing.T) {
	const (
		growing          = corev1.PersistentVolumeClaimControllerResizeInProgress
		impossible       = corev1.PersistentVolumeClaimControllerResizeInfeasible
		onNode           = corev1.PersistentVolumeClaimNodeResizePending
		onNodeBegun      = corev1.PersistentVolumeClaimNodeResizeInProgress
		onNodeImpossible = corev1.PersistentVolumeClaimNodeResizeInfeasible
	)
	tests := []struct {
		name                     string
		asked, allocated, volume string
		status                   corev1.ClaimResourceStatus
		failed                   bool
		want                     string // "": it is not the resizer's turn
	}{
		{"a first time", "2Gi", "", "1Gi", "", false, "2Gi"},
		{"a second time", "3Gi", "2Gi", "2Gi", "", false, "3Gi"},
		{"begun, and not known how it ended", "3Gi", "2Gi", "1Gi", growing, false, "2Gi"},
		{"begun, and failed for good", "3Gi", "2Gi", "1Gi", growing, true, "3Gi"},
		{"the volume is larger, and the claim does not say so", "2Gi", "2Gi", "2Gi", growing, false, "2Gi"},
		{"done, and less is asked for than was made", "2Gi", "3Gi", "3Gi", growing, false, "3Gi"},
		{"not feasible", "2Gi", "2Gi", "1Gi", impossible, false, ""},
		{"not feasible, and less is asked for", "1500Mi", "2Gi", "1Gi", impossible, false, "1500Mi"},
		{"the node's turn", "2Gi", "2Gi", "2Gi", onNode, false, ""},
		{"the node's turn, and more is asked for", "3Gi", "2Gi", "2Gi", onNode, false, ""},
		{"the node is at it", "3Gi", "2Gi", "2Gi", onNodeBegun, false, ""},
		{"said to be the node's turn, and not grown", "3Gi", "2Gi", "1Gi", onNode, false, "2Gi"},
		{"not feasible on the node", "2Gi", "2Gi", "2Gi", onNodeImpossible, false, "2Gi"},
		{"not feasible on the node, and more is asked for", "3Gi", "2Gi", "2Gi", onNodeImpossible, false, "2Gi"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{}
			claim.Spec.Resources.Requests, claim.Status.Capacity = list(tt.asked), list("1Gi")
			claim.Status.AllocatedResources = list(tt.allocated)
			if tt.status != "" {
				claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: tt.status}
			}
			volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{Capacity: list(tt.volume)}}
			size, mine := decide(claim, volume, tt.failed)
			got := ""
			if mine {
				got = size.String()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
