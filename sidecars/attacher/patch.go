package attacher

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patchAttachment sends the differences as a merge patch and returns the patched attachment. With
// an error it returns before.
//
// Upstream: external-attacher pkg/controller patchVA, createMergePatch (4.13.0).
func (c *Controller) patchAttachment(
	ctx context.Context, before, after *storagev1.VolumeAttachment, subresources ...string,
) (*storagev1.VolumeAttachment, error) {
	patch := mustMarshal(attachmentChanges(before, after))
	patched, err := c.cfg.Client.StorageV1().VolumeAttachments().
		Patch(ctx, before.Name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return before, err
	}
	return patched, nil
}

// An attachmentPatch is a merge patch of the fields that an attacher changes.
type attachmentPatch struct {
	Metadata map[string]any `json:"metadata,omitempty"`
	Status   map[string]any `json:"status,omitempty"`
}

// attachmentChanges returns the patch from one version of an attachment to another.
func attachmentChanges(before, after *storagev1.VolumeAttachment) attachmentPatch {
	p := attachmentPatch{Metadata: map[string]any{}, Status: map[string]any{}}
	if !slices.Equal(before.Finalizers, after.Finalizers) {
		p.Metadata["finalizers"] = after.Finalizers
	}
	if !maps.Equal(before.Annotations, after.Annotations) {
		p.Metadata["annotations"] = changedEntries(before.Annotations, after.Annotations)
	}
	if before.Status.Attached != after.Status.Attached {
		p.Status["attached"] = after.Status.Attached
	}
	if !maps.Equal(before.Status.AttachmentMetadata, after.Status.AttachmentMetadata) {
		p.Status["attachmentMetadata"] = changedEntries(
			before.Status.AttachmentMetadata, after.Status.AttachmentMetadata)
	}
	if !equality.Semantic.DeepEqual(before.Status.AttachError, after.Status.AttachError) {
		p.Status["attachError"] = failurePatch(after.Status.AttachError)
	}
	if !equality.Semantic.DeepEqual(before.Status.DetachError, after.Status.DetachError) {
		p.Status["detachError"] = failurePatch(after.Status.DetachError)
	}
	return p
}

// changedEntries returns the patch of a map: null for removed keys, and null for the whole map if
// it becomes empty.
func changedEntries(before, after map[string]string) map[string]any {
	if len(after) == 0 {
		return nil
	}
	patch := map[string]any{}
	for key := range before {
		if _, ok := after[key]; !ok {
			patch[key] = nil
		}
	}
	for key, value := range after {
		if old, ok := before[key]; !ok || old != value {
			patch[key] = value
		}
	}
	return patch
}

// failurePatch returns the patch that sets an error. It contains all fields, since the stored error
// may be another one.
func failurePatch(failure *storagev1.VolumeError) map[string]any {
	if failure == nil {
		return nil
	}
	return map[string]any{"time": failure.Time, "message": failure.Message, "errorCode": failure.ErrorCode}
}

// An operation is one operation of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

func mustMarshal(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("attacher: %T cannot be marshaled: %v", value, err))
	}
	return data
}
