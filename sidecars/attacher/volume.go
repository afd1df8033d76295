package attacher

import (
	"context"
	"fmt"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// syncVolume removes the finalizer from a deleted PersistentVolume once no attachment names it.
//
// Upstream: external-attacher pkg/controller SyncNewOrUpdatedPersistentVolume (4.13.0).
func (c *Controller) syncVolume(ctx context.Context, name string) error {
	capabilities, err := c.driver.Capabilities(ctx)
	if err != nil {
		return err
	}
	volume, err := c.volumes.Get(name)
	switch {
	case err != nil || volume.DeletionTimestamp == nil || !slices.Contains(volume.Finalizers, c.finalizer):
		return nil
	case !capabilities[csispec.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME] || c.hasAttachment(name):
		return nil
	}
	return c.patchVolume(ctx, volume, dropFinalizer(volume.Finalizers, c.finalizer))
}

// hasAttachment reports whether any attachment, of any driver, names the volume.
func (c *Controller) hasAttachment(volume string) bool {
	attachments, err := c.attachments.List(labels.Everything())
	if err != nil {
		panic("attacher: list attachments: " + err.Error())
	}
	for _, a := range attachments {
		if name := a.Spec.Source.PersistentVolumeName; name != nil && *name == volume {
			return true
		}
	}
	return false
}

func (c *Controller) addVolumeFinalizer(ctx context.Context, volume *corev1.PersistentVolume) error {
	if slices.Contains(volume.Finalizers, c.finalizer) {
		return nil
	}
	return c.patchVolume(ctx, volume, addFinalizer(volume.Finalizers, c.finalizer))
}

// patchVolume sends a JSON patch. A deleted volume that does not exist any more is not an error.
func (c *Controller) patchVolume(ctx context.Context, volume *corev1.PersistentVolume, patch []operation) error {
	_, err := c.cfg.Client.CoreV1().PersistentVolumes().
		Patch(ctx, volume.Name, types.JSONPatchType, mustMarshal(patch), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) && volume.DeletionTimestamp != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patch finalizers of PersistentVolume %s: %w", volume.Name, err)
	}
	return nil
}

// addFinalizer returns a patch that appends the finalizer. It cannot restore finalizers that other
// clients removed meanwhile.
//
// Upstream: external-attacher pkg/controller addFinalizerPatch (4.13.0).
func addFinalizer(finalizers []string, name string) []operation {
	if len(finalizers) == 0 {
		return []operation{
			{Op: "test", Path: "/metadata/finalizers", Value: mustMarshal(nil)},
			{Op: "add", Path: "/metadata/finalizers", Value: mustMarshal([]string{name})},
		}
	}
	return []operation{{Op: "add", Path: "/metadata/finalizers/-", Value: mustMarshal(name)}}
}

// dropFinalizer returns a patch that removes the finalizer by index. It fails if the finalizer is
// not at that index any more.
//
// Upstream: external-attacher pkg/controller removeFinalizerPatch (4.13.0).
func dropFinalizer(finalizers []string, name string) []operation {
	path := fmt.Sprintf("/metadata/finalizers/%d", slices.Index(finalizers, name))
	return []operation{{Op: "test", Path: path, Value: mustMarshal(name)}, {Op: "remove", Path: path}}
}
