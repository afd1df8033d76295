package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/snapshotapi"
)

const farewell = "Overwritten after the snapshot was taken.\n"

// snapshots returns a client of the snapshots.
func (s *demoRun) snapshots() customresource.Client[snapshotapi.VolumeSnapshot, *snapshotapi.VolumeSnapshot] {
	return snapshotapi.Snapshots.Client(s.cluster.Server().Client(s.cluster.Host().ExternalCaller()).Dynamic())
}

// restore takes a snapshot of the claim, overwrites the file, and finds it in a volume that is made from the
// snapshot.
func (s *demoRun) restore(ctx context.Context, kind cluster.Devices) error {
	snapshot := &snapshotapi.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: snapshotName}}
	source := claimName
	snapshot.Spec.Source.PersistentVolumeClaimName = &source
	if _, err := s.snapshots().Create(ctx, snapshot); err != nil {
		return err
	}
	const ready = "jsonpath={.status.readyToUse}=true"
	if err := s.cluster.WaitFor(ctx, snapshotapi.Snapshots.CommitName(), namespace, snapshotName, ready); err != nil {
		return err
	}
	if err := s.write(ctx, farewell); err != nil {
		return err
	}
	s.out.note(podName, fmt.Sprintf("overwrites %s with %d bytes", fileName, len(farewell)))
	return s.readRestored(ctx, kind)
}

// readRestored creates a claim from the snapshot and a pod that reads its file.
func (s *demoRun) readRestored(ctx context.Context, kind cluster.Devices) error {
	claim := cluster.NewClaim(restoredClaim, "64Mi")
	claim.Spec.DataSource = snapshotapi.DataSource(snapshotName)
	core := s.cluster.Client().CoreV1()
	if _, err := core.PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return err
	}
	pod := cluster.NewPod(restoredPod, restoredClaim)
	if kind == cluster.LVM { // the snapshot is in the volume group of node-1
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-1"}
	}
	if _, err := core.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.cluster.WaitForPod(ctx, namespace, restoredPod, corev1.PodRunning); err != nil {
		return err
	}
	found, err := s.read(ctx, restoredPod, restoredClaim)
	if err != nil {
		return err
	}
	if found != greeting {
		return fmt.Errorf("restored file has other content: %q", found)
	}
	s.out.note(restoredPod, fmt.Sprintf("finds %s with the first %d bytes", fileName, len(found)))
	return nil
}

// removeRestored deletes the second pod with its claim, and the snapshot.
func (s *demoRun) removeRestored(ctx context.Context) error {
	if err := s.cluster.Client().CoreV1().Pods(namespace).Delete(ctx, restoredPod, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := s.removeClaim(ctx, restoredClaim); err != nil {
		return err
	}
	if err := s.snapshots().Delete(ctx, namespace, snapshotName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.cluster.WaitForGone(ctx, snapshotapi.Snapshots.CommitName(), namespace, snapshotName)
}
