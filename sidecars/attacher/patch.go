package attacher

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patchAttachment sends what changed, as a merge patch, and returns the attachment as it is then; on an error the one it
// was given.
//
// Upstream: external-attacher pkg/controller patchVA, createMergePatch (4.13.0).
func (c *Controller) patchAttachment(ctx context.Context, was, is *storagev1.VolumeAttachment, subresources ...string) (*storagev1.VolumeAttachment, error) {
	patch, err := jsonpatch.CreateMergePatch(mustMarshal(was), mustMarshal(is))
	if err != nil {
		panic(fmt.Sprintf("attacher: patch of VolumeAttachment %s: %v", was.Name, err))
	}
	patched, err := c.cfg.Client.StorageV1().VolumeAttachments().
		Patch(ctx, was.Name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return was, err
	}
	return patched, nil
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
