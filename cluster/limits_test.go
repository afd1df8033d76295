package cluster_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
)

// A pod that a user assigned to a node at its volume limit fails with the reason. The node then
// reports its current limit.
//
// Upstream: pkg/kubelet SyncPod, and of pkg/kubelet/volumemanager WaitForAttachAndMount (v1.36).
func TestPodBeyondTheVolumeLimitFails(t *testing.T) {
	t.Parallel()
	s, err := scenario.Find("limit-is-lowered")
	if err != nil {
		t.Fatal(err)
	}
	s.Users[0].Acts = s.Users[0].Acts[:7] // up to the pod that fails
	var world *cluster.Cluster
	r, err := s.Run(t.Context(), scenario.Options{Watch: func(c *cluster.Cluster) { world = c }})
	if err != nil || r.Failure != nil {
		t.Fatal(err, r.Failure)
	}
	obj, _ := world.Server().Get("pods", "default", "two")
	const message = "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. " +
		"unmounted volumes=[b], unattached volumes=[b], failed to process volumes=[]: context deadline exceeded"
	status := obj.(*corev1.Pod).Status
	if status.Phase != corev1.PodFailed || status.Reason != "VolumeAttachmentLimitExceeded" ||
		status.Message != message {
		t.Errorf("%s, %s: %s\nwant Failed, VolumeAttachmentLimitExceeded: %s", status.Phase,
			status.Reason, status.Message, message)
	}
	told := 0
	for _, obj := range world.Server().List("events") {
		if e := obj.(*corev1.Event); e.Reason == "VolumeAttachmentLimitExceeded" {
			told += int(max(e.Count, 1))
			if "Pod was rejected: "+e.Message != message || e.Type != corev1.EventTypeWarning ||
				e.InvolvedObject.Name != "two" {
				t.Errorf("event for %s: %s %s", e.InvolvedObject.Name, e.Type, e.Message)
			}
		}
	}
	if told != 1 {
		t.Errorf("recorded %d times, want once", told)
	}
	obj, _ = world.Server().Get("csinodes", "", "node-1")
	if d := obj.(*storagev1.CSINode).Spec.Drivers[0]; d.Allocatable == nil || *d.Allocatable.Count != 1 {
		t.Errorf("limit in the CSINode: %v, want 1", d.Allocatable)
	}
	for _, obj := range world.Server().List("volumeattachments") {
		if a := obj.(*storagev1.VolumeAttachment); strings.Contains(*a.Spec.Source.PersistentVolumeName, "pvc-") &&
			!a.Status.Attached {
			t.Errorf("attachment %s exists and is not attached", a.Name)
		}
	}
}

func TestLimitsAreOfTheArray(t *testing.T) {
	t.Parallel()
	if _, err := cluster.New(cluster.Config{VolumesPerNode: -1}); err == nil {
		t.Error("negative number of volumes: want an error")
	}
	c, err := cluster.New(cluster.Config{Devices: cluster.Array, VolumesPerNode: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetVolumesPerNode(-1); err == nil {
		t.Error("negative limit: want an error")
	}
	if err := c.SetVolumesPerNode(1); err != nil {
		t.Error(err)
	}
}
