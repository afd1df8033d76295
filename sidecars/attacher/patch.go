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

// patchAttachment sends what changed, as a merge patch, and returns the attachment as it is then; on an error the one it
// was given.
//
// Upstream: external-attacher pkg/controller patchVA, createMergePatch (4.13.0).
func (c *Controller) patchAttachment(ctx context.Context, was, is *storagev1.VolumeAttachment, subresources ...string) (*storagev1.VolumeAttachment, error) {
	patched, err := c.cfg.Client.StorageV1().VolumeAttachments().
		Patch(ctx, was.Name, types.MergePatchType, mustMarshal(attachmentChanges(was, is)), metav1.PatchOptions{}, subresources...)
	if err != nil {
		return was, err
	}
	return patched, nil
}

// attachmentPatch is a merge patch of what an attacher changes of an attachment.
type attachmentPatch struct {
	Metadata map[string]any `json:"metadata,omitempty"`
	Status   map[string]any `json:"status,omitempty"`
}

// attachmentChanges is the patch that makes one version of an attachment of another.
func attachmentChanges(was, is *storagev1.VolumeAttachment) attachmentPatch {
	p := attachmentPatch{Metadata: map[string]any{}, Status: map[string]any{}}
	if !slices.Equal(was.Finalizers, is.Finalizers) {
		p.Metadata["finalizers"] = is.Finalizers
	}
	if !maps.Equal(was.Annotations, is.Annotations) {
		p.Metadata["annotations"] = changedEntries(was.Annotations, is.Annotations)
	}
	if was.Status.Attached != is.Status.Attached {
		p.Status["attached"] = is.Status.Attached
	}
	if !maps.Equal(was.Status.AttachmentMetadata, is.Status.AttachmentMetadata) {
		p.Status["attachmentMetadata"] = changedEntries(was.Status.AttachmentMetadata, is.Status.AttachmentMetadata)
	}
	if !equality.Semantic.DeepEqual(was.Status.AttachError, is.Status.AttachError) {
		p.Status["attachError"] = failurePatch(is.Status.AttachError)
	}
	if !equality.Semantic.DeepEqual(was.Status.DetachError, is.Status.DetachError) {
		p.Status["detachError"] = failurePatch(is.Status.DetachError)
	}
	return p
}

// changedEntries is the patch of a map: null for what is to go, and for all of it when nothing is to stay.
func changedEntries(was, is map[string]string) map[string]any {
	if len(is) == 0 {
		return nil
	}
	patch := map[string]any{}
	for key := range was {
		if _, ok := is[key]; !ok {
			patch[key] = nil
		}
	}
	for key, value := range is {
		if old, ok := was[key]; !ok || old != value {
			patch[key] = value
		}
	}
	return patch
}

// failurePatch is the patch of an error that is to be as given. It names all fields, as there may be another error.
func failurePatch(is *storagev1.VolumeError) map[string]any {
	if is == nil {
		return nil
	}
	return map[string]any{"time": is.Time, "message": is.Message, "errorCode": is.ErrorCode}
}

// operation is one of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

func mustMarshal(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("attacher: %T cannot be written as JSON: %v", value, err))
	}
	return data
}
