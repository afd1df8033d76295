package localstorage

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/resize"
	"github.com/volsim/volsim/internal/volumegroup"
)

// preResizeAnnotation is the annotation of a volume with the claim's capacity before the expansion.
//
// Upstream: pkg/volume/util AnnPreResizeCapacity (v1.36).
const preResizeAnnotation = "volume.alpha.kubernetes.io/pre-resize-capacity"

// The reasons of a resizer's events.
//
// Upstream: external-resizer pkg/util VolumeResizing, VolumeResizeFailed, VolumeResizeSuccess,
// FileSystemResizeRequired (2.3.0).
const (
	reasonResizing     = "Resizing"
	reasonResizeFailed = "VolumeResizeFailed"
	reasonResized      = "VolumeResizeSuccessful"
	reasonRequired     = "FileSystemResizeRequired"
)

// grow grows the volume of a bound claim that requests more than it has, and leaves the file system to
// the kubelet. Without space nothing changes but the claim's status; it is tried again when there is
// more.
//
// Upstream: external-resizer pkg/controller syncPVC, callResizeOnPlugin (2.3.0).
func (m *Manager) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume, err := m.volumes.Get(claim.Spec.VolumeName)
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if err != nil || claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil || !isOn(volume, m.cfg.Node) ||
		volume.Name != volumeName(claim) {
		return nil //nolint:nilerr // the cache will show it, or it is not ours
	}
	capacity := resize.Capacity(claim)
	switch status := resize.Status(claim); {
	case capacity.Cmp(requested) >= 0:
		return nil
	case status == corev1.PersistentVolumeClaimNodeResizePending, status == corev1.PersistentVolumeClaimNodeResizeInProgress:
		return nil // the kubelet continues
	case status == corev1.PersistentVolumeClaimControllerResizeInfeasible:
		if allocated := resize.Allocated(claim); allocated.Cmp(requested) == 0 && !m.hasSpace(volume, requested) {
			return nil
		}
	}
	key := claim.Namespace + "/" + claim.Name
	begun := resize.WithConditions(claim, true,
		resize.Condition(corev1.PersistentVolumeClaimResizing, metav1.NewTime(m.cfg.Process.Now()), ""))
	begun = resize.WithAllocated(resize.WithStatus(begun, corev1.PersistentVolumeClaimControllerResizeInProgress), requested)
	if claim, err = resize.Patch(ctx, m.cfg.Client, claim, begun, false); err != nil {
		return fmt.Errorf("marking pvc %q as resizing failed: %w", key, err)
	}
	m.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonResizing, "External resizer is resizing volume "+volume.Name)
	var grown volumegroup.Volume
	err = m.call("ExtendLogicalVolume", volume.Name, func() (err error) {
		grown, err = m.cfg.Groups.Extend(ctx, volume.Spec.StorageClassName, volume.Name, requested.Value())
		return err
	})
	switch {
	case isFull(err):
		return m.growthRefused(ctx, claim, volume, err)
	case err != nil:
		m.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonResizeFailed,
			fmt.Sprintf("resize volume %q by resizer %q failed: %v", volume.Name, Provisioner, err))
		return err
	}
	if err := m.finishGrowth(ctx, claim, volume, quantity(grown.Size)); err != nil {
		return err
	}
	return m.refresh(ctx, volume.Spec.StorageClassName)
}

// hasSpace reports whether the record has space for a volume to grow.
func (m *Manager) hasSpace(volume *corev1.PersistentVolume, to resource.Quantity) bool {
	r := m.record(volume.Spec.StorageClassName)
	if r == nil || r.Status.Phase != phaseReady {
		return false
	}
	v := r.volume(volume.Name)
	return v != nil && v.Size.Value()+r.Status.Free.Value() >= to.Value()
}

// growthRefused records a growth for which there is no space. The record is written first, so that
// the claim is tried again as soon as there is.
func (m *Manager) growthRefused(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, why error) error {
	if err := m.refresh(ctx, volume.Spec.StorageClassName); err != nil {
		return err
	}
	m.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonResizeFailed,
		fmt.Sprintf("resize volume %q by resizer %q failed: %v", volume.Name, Provisioner, why))
	failed := resize.WithConditions(claim, true, resize.Condition(corev1.PersistentVolumeClaimControllerResizeError,
		metav1.NewTime(m.cfg.Process.Now()), fmt.Sprintf("failed to expand pvc with %v", why)))
	failed = resize.WithStatus(failed, corev1.PersistentVolumeClaimControllerResizeInfeasible)
	_, err := resize.Patch(ctx, m.cfg.Client, claim, failed, false)
	return err
}

// finishGrowth writes the size of a volume that has grown, and leaves its file system to the kubelet.
func (m *Manager) finishGrowth(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, size resource.Quantity) error {
	hasFiles := ptr.Deref(volume.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeFilesystem
	metadata := map[string]any{"uid": volume.UID}
	if _, annotated := volume.Annotations[preResizeAnnotation]; hasFiles && !annotated {
		before := resize.Capacity(claim)
		metadata["annotations"] = map[string]string{preResizeAnnotation: before.String()}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": metadata, "spec": map[string]any{"capacity": map[string]any{"storage": size.String()}},
	})
	if err != nil {
		panic("localstorage: capacity patch: " + err.Error())
	}
	_, err = m.cfg.Client.CoreV1().PersistentVolumes().
		Patch(ctx, volume.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("updating capacity of PV %q to %s failed: %w", volume.Name, size.String(), err)
	}
	if !hasFiles {
		_, err = resize.Patch(ctx, m.cfg.Client, claim, resize.Finished(claim, size), false)
		if err == nil {
			m.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonResized, "Resize volume succeeded")
		}
		return err
	}
	pending := resize.Condition(corev1.PersistentVolumeClaimFileSystemResizePending,
		metav1.NewTime(m.cfg.Process.Now()), resize.Message)
	next := resize.WithConditions(resize.WithStatus(claim, corev1.PersistentVolumeClaimNodeResizePending), true, pending)
	if claim, err = resize.Patch(ctx, m.cfg.Client, claim, next, false); err == nil {
		m.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonRequired, "Require file system resize of volume on node")
	}
	return err
}
