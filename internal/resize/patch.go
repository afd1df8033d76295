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

// Patch writes what is different between two versions of a claim, to its status and annotations, and returns the claim as it
// is then. Unless anyhow, it is a conflict if the claim is not as it was. A claim that is to be as it was is not written.
//
// Upstream: pkg/volume/util PatchPVCStatus (v1.36).
func Patch(ctx context.Context, client kubernetes.Interface, was, is *corev1.PersistentVolumeClaim, anyhow bool) (*corev1.PersistentVolumeClaim, error) {
	patch, err := difference(was, is, anyhow)
	if err != nil {
		return was, fmt.Errorf("patchPVCStatus failed to patch PVC %q: %w", was.Name, err)
	}
	if patch == nil {
		return was, nil
	}
	patched, err := client.CoreV1().PersistentVolumeClaims(was.Namespace).
		Patch(ctx, was.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return was, fmt.Errorf("patchPVCStatus failed to patch PVC %q: %w", was.Name, err)
	}
	return patched, nil
}

// difference is the patch from one version to another; nil where they are the same.
func difference(was, is *corev1.PersistentVolumeClaim, anyhow bool) ([]byte, error) {
	before, err := json.Marshal(was)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(is)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, was)
	if err != nil || anyhow || string(patch) == "{}" {
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
	metadata["resourceVersion"] = was.ResourceVersion
	fields["metadata"] = metadata
	return json.Marshal(fields)
}

func nilIfEmpty(patch []byte) []byte {
	if string(patch) == "{}" {
		return nil
	}
	return patch
}
