package resize

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
)

// Patch writes the difference between two versions of a claim to its status and annotations, and
// returns the written claim. Unless force is set, a claim that has changed since is a conflict.
// Equal versions are not written. On error it returns the old version.
//
// Upstream: pkg/volume/util PatchPVCStatus (v1.36).
func Patch(
	ctx context.Context, client kubernetes.Interface, old, claim *corev1.PersistentVolumeClaim, force bool,
) (*corev1.PersistentVolumeClaim, error) {
	patch, err := difference(old, claim, force)
	if err != nil {
		return old, fmt.Errorf("patchPVCStatus failed to patch PVC %q: %w", old.Name, err)
	}
	if patch == nil {
		return old, nil
	}
	patched, err := client.CoreV1().PersistentVolumeClaims(old.Namespace).
		Patch(ctx, old.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return old, fmt.Errorf("patchPVCStatus failed to patch PVC %q: %w", old.Name, err)
	}
	return patched, nil
}

// difference returns the patch from one version to another, or nil if they are equal.
func difference(old, claim *corev1.PersistentVolumeClaim, force bool) ([]byte, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(claim)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, old)
	if err != nil || force || string(patch) == "{}" {
		return nilIfEmpty(patch), err
	}
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, err
	}
	metadata, _ := fields["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = old.ResourceVersion
	fields["metadata"] = metadata
	return json.Marshal(fields)
}

func nilIfEmpty(patch []byte) []byte {
	if string(patch) == "{}" {
		return nil
	}
	return patch
}
