package expand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/resize"
	"github.com/volsim/volsim/plugins"
)

// An expander is a plugin that expands volumes.
type expander struct {
	plugins.VolumeExpander        // nil: none
	name                   string // of the plugin
	onNode                 bool   // the kubelet must expand the file system
}

// findExpander returns the plugin that expands a volume.
//
// Upstream: pkg/volume FindExpandablePluginBySpec (v1.36).
func findExpander(manager *plugins.Manager, spec *plugins.Spec) (expander, error) {
	found, err := manager.FindBySpec(spec)
	switch flex := spec.PersistentVolume.Spec.FlexVolume; {
	case err != nil && flex != nil:
		return expander{kubeletExpands{}, flex.Driver, true}, nil
	case errors.Is(err, plugins.ErrNoPlugin):
		return expander{}, nil
	case err != nil:
		return expander{}, err
	default:
		return expander{found.VolumeExpander, found.Name(), found.NodeExpander != nil && found.NodeExpander.RequiresFSResize()}, nil
	}
}

// kubeletExpands leaves the whole expansion to the kubelet.
//
// Upstream: pkg/volume noopExpandableVolumePluginInstance (v1.36).
type kubeletExpands struct{}

func (kubeletExpands) ExpandVolume(
	_ context.Context, _ *plugins.Spec, newSize, _ resource.Quantity,
) (resource.Quantity, error) {
	return newSize, nil
}

func requestOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// finished reports whether the claim has what it requests, and all that its volume has.
//
// Upstream: pkg/controller/volume/expand isNodeExpandComplete (v1.36).
func finished(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	capacity := resize.Capacity(claim)
	return capacity.Cmp(requestOf(claim)) >= 0 && capacity.Cmp(volume.Spec.Capacity[corev1.ResourceStorage]) >= 0
}

// A step is what the controller does next for a claim that requests more than it has.
type step int

const (
	wait    step = iota // the kubelet is expanding the volume
	toNode              // the kubelet must try again
	enlarge             // the plugin expands the volume
)

// decide returns the next step, and the size to which the volume is expanded.
//
// Upstream: pkg/volume/util/operationexecutor expandAndRecoverFunction (v1.36).
func decide(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) (step, resource.Quantity) {
	requested, allocated := requestOf(claim), resize.Allocated(claim)
	_, begun := claim.Status.AllocatedResources[corev1.ResourceStorage]
	has := volume.Spec.Capacity[corev1.ResourceStorage]
	status := resize.Status(claim)
	if has.Cmp(requested) < 0 {
		switch status {
		case corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimNodeResizePending,
			corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible:
			if begun {
				return enlarge, allocated
			}
		}
		return enlarge, requested
	}
	switch status {
	case corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizePending:
		return wait, resource.Quantity{}
	case corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return toNode, resource.Quantity{}
	}
	known := status == "" || status == corev1.PersistentVolumeClaimControllerResizeInProgress ||
		status == corev1.PersistentVolumeClaimControllerResizeInfeasible
	if known && begun {
		return enlarge, allocated
	}
	return enlarge, requested
}

// grow does the next step of the expansion of a claim's volume.
//
// Upstream: pkg/volume/util/operationexecutor expandAndRecoverFunction (v1.36).
func (c *controller) grow(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, by expander,
) error {
	key := claim.Namespace + "/" + claim.Name
	next, size := decide(claim, volume)
	switch next {
	case wait:
		return nil
	case toNode:
		return c.leaveToNode(ctx, claim, volume)
	}
	resizing := resize.Condition(corev1.PersistentVolumeClaimResizing, metav1.NewTime(c.cfg.Process.Now()), "")
	begun := resize.WithConditions(claim, false, resizing)
	begun = resize.WithStatus(begun, corev1.PersistentVolumeClaimControllerResizeInProgress)
	begun = withResizer(resize.WithAllocated(begun, size), by.name)
	capacity := resize.Capacity(claim)
	claim, err := resize.Patch(ctx, c.client, claim, begun, false)
	if err != nil {
		return fmt.Errorf("error updating pvc %s with resize in progress: %w", key, err)
	}
	size, err = by.ExpandVolume(ctx, &plugins.Spec{PersistentVolume: volume}, size, capacity)
	if err != nil {
		return fmt.Errorf("error expanding pvc %s: %w", key, err)
	}
	if has := volume.Spec.Capacity[corev1.ResourceStorage]; has.Cmp(size) != 0 {
		err = c.patchVolume(ctx, volume, map[string]any{
			"spec": map[string]any{"capacity": map[string]any{"storage": size.String()}},
		})
		if err != nil {
			return fmt.Errorf("error updating pv for pvc %s: %w", key, err)
		}
	}
	if mode := volume.Spec.VolumeMode; by.onNode && (mode == nil || *mode == corev1.PersistentVolumeFilesystem) {
		if err := c.leaveToNode(ctx, claim, volume); err != nil {
			return fmt.Errorf("error marking pvc %s for node expansion: %w", key, err)
		}
		return nil
	}
	if _, err := resize.Patch(ctx, c.client, claim, resize.Finished(claim, size), false); err != nil {
		return fmt.Errorf("error marking pvc %s as resized: %w", key, err)
	}
	c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonSucceeded, "ExpandVolume succeeded for volume "+key)
	return nil
}

// leaveToNode records that the kubelet must expand the file system, and at the volume which capacity
// the claim had before.
//
// Upstream: pkg/volume/util/operationexecutor markForPendingNodeExpansion (v1.36).
func (c *controller) leaveToNode(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	pending := resize.Condition(corev1.PersistentVolumeClaimFileSystemResizePending,
		metav1.NewTime(c.cfg.Process.Now()), resize.Message)
	marked := resize.WithStatus(claim, corev1.PersistentVolumeClaimNodeResizePending)
	claim, err := resize.Patch(ctx, c.client, claim, resize.WithConditions(marked, true, pending), false)
	if err != nil {
		return fmt.Errorf("error marking pvc %s/%s for node expansion: %w", claim.Namespace, claim.Name, err)
	}
	if _, annotated := volume.Annotations[preResizeAnnotation]; annotated {
		return nil
	}
	capacity := resize.Capacity(claim)
	err = c.patchVolume(ctx, volume, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{preResizeAnnotation: capacity.String()}},
	})
	if err != nil {
		return fmt.Errorf("error updating pv %s annotation (%s) with pre-resize capacity %s: %w",
			volume.Name, preResizeAnnotation, capacity.String(), err)
	}
	return nil
}

// patchVolume changes a volume, whatever else has changed since it was read.
//
// Upstream: pkg/volume/util PatchPV (v1.36).
func (c *controller) patchVolume(ctx context.Context, volume *corev1.PersistentVolume, change map[string]any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("patch of PV: %w", err)
	}
	_, err = c.client.CoreV1().PersistentVolumes().
		Patch(ctx, volume.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("error Patching PV %q with error : %w", volume.Name, err)
	}
	return nil
}
