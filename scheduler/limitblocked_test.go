package scheduler_test

import (
	"context"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod that the volume limits reject is retried when there may be room: a limit is raised, a pod
// is deleted or completes, or an attachment is deleted.
//
// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimitsQHint,
// TestCSILimitsDeletedVolumeAttachmentQHint, TestCSILimitsAfterCSINodeUpdatedQHint (v1.36).
func TestPodRejectedByLimitsIsRetried(t *testing.T) {
	ctx, now := context.Background(), int64(0)
	gone := metav1.DeleteOptions{GracePeriodSeconds: &now}
	for _, test := range []struct {
		name  string
		makes func(w *world) error // room
	}{
		{"the limit is raised", func(w *world) error {
			_, err := w.User.StorageV1().CSINodes().Update(ctx, csiNode(w, 3), metav1.UpdateOptions{})
			return err
		}},
		{"a pod is deleted", func(w *world) error { return w.User.CoreV1().Pods("default").Delete(ctx, "first", gone) }},
		{"a pod completes", func(w *world) error {
			_, err := w.User.CoreV1().Pods("default").Patch(ctx, "first", types.MergePatchType,
				[]byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
			return err
		}},
		{"an attachment is deleted", func(w *world) error {
			return w.User.StorageV1().VolumeAttachments().Delete(ctx, "left", metav1.DeleteOptions{})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.create(newNode("node"), newClaim("old", "immediate"), newClaim("a", "immediate"),
				newClaim("b", "immediate"))
			w.Run()
			left := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "left"}}
			left.Spec.NodeName, left.Spec.Attacher = "node", "d"
			volume := "pvc-" + string(w.claim("old").UID)
			left.Spec.Source.PersistentVolumeName = &volume
			if err := w.Server.Add(csiNode(w, 2), left); err != nil {
				t.Fatal(err)
			}
			w.create(newPod("first", "a"))
			w.Run()
			w.create(newPod("second", "b"))
			w.Run()
			if first, second := w.pod("first").Spec.NodeName, w.pod("second").Spec.NodeName; first != "node" || second != "" {
				t.Fatalf("first is on %q, second on %q: want first on the node, where there is no place for another",
					first, second)
			}
			const message = "FailedScheduling: 0/1 nodes are available: 1 node(s) exceed max volume count. " +
				"no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
			if got := w.events("second"); len(got) != 1 || got[0] != message {
				t.Errorf("got %q, want %q", got, message)
			}
			if err := test.makes(w); err != nil {
				t.Fatal(err)
			}
			w.Run()
			if got := w.pod("second").Spec.NodeName; got != "node" {
				t.Errorf("second is on %q, want it on the node", got)
			}
		})
	}
}

// csiNode returns the node's CSINode with a limit for driver d.
func csiNode(w *world, limit int32) *storagev1.CSINode {
	if obj, ok := w.Server.Get("csinodes", "", "node"); ok {
		node := obj.DeepCopyObject().(*storagev1.CSINode)
		node.Spec.Drivers[0].Allocatable.Count = &limit
		return node
	}
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: "d", NodeID: "node", Allocatable: &storagev1.VolumeNodeResources{Count: &limit},
		}}},
	}
}
