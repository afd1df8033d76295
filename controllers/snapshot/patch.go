package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// A patchOp is an operation of a JSON patch.
type patchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// addFinalizers returns a patch that appends finalizers to an object. It fails if the object had none
// and has some now, which it would replace.
func addFinalizers(obj metav1.Object, finalizers ...string) []patchOp {
	if len(obj.GetFinalizers()) == 0 {
		const path = "/metadata/finalizers"
		return []patchOp{{"test", path, nil}, {"add", path, finalizers}}
	}
	ops := make([]patchOp, len(finalizers))
	for i, finalizer := range finalizers {
		ops[i] = patchOp{"add", "/metadata/finalizers/-", finalizer}
	}
	return ops
}

// encode returns a patch of the object with this UID only.
func encode(uid types.UID, ops []patchOp) []byte {
	data, err := json.Marshal(append([]patchOp{{"test", "/metadata/uid", string(uid)}}, ops...))
	if err != nil {
		panic(fmt.Sprintf("snapshot: encode patch: %v", err))
	}
	return data
}

func (c *controller) patchSnapshot(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, ops ...patchOp,
) (*snapshotapi.VolumeSnapshot, error) {
	patched, err := c.snapshotClient.Patch(ctx, snapshot.Namespace, snapshot.Name, types.JSONPatchType,
		encode(snapshot.UID, ops))
	return c.wroteSnapshot(snapshot, patched, err)
}

// wroteSnapshot returns the result of a write.
func (c *controller) wroteSnapshot(
	before, after *snapshotapi.VolumeSnapshot, err error,
) (*snapshotapi.VolumeSnapshot, error) {
	if err != nil {
		return before, updateError(keyOf(before).String(), err)
	}
	c.ownSnapshot.note(after)
	return after, nil
}

func (c *controller) patchContent(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent, ops ...patchOp,
) (*snapshotapi.VolumeSnapshotContent, error) {
	patched, err := c.contentClient.Patch(ctx, "", content.Name, types.JSONPatchType, encode(content.UID, ops))
	return c.wroteContent(content, patched, err)
}

// annotateContent sets an annotation of a content to "yes".
func (c *controller) annotateContent(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent, annotation string,
) (*snapshotapi.VolumeSnapshotContent, error) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"yes"}}}`, content.UID, annotation)
	patched, err := c.contentClient.Patch(ctx, "", content.Name, types.MergePatchType, patch)
	return c.wroteContent(content, patched, err)
}

// wroteContent returns the result of a write.
func (c *controller) wroteContent(
	before, after *snapshotapi.VolumeSnapshotContent, err error,
) (*snapshotapi.VolumeSnapshotContent, error) {
	if err != nil {
		return before, err
	}
	c.ownContent.note(after)
	return after, nil
}

// updateError returns the error of a failed write.
//
// Upstream: external-snapshotter pkg/common-controller newControllerUpdateError (8.7.0).
func updateError(name string, err error) error {
	if was := (*unmetError)(nil); errors.As(err, &was) {
		return unmet("snapshot controller failed to update %s on API server: %v", name, err)
	}
	return fmt.Errorf("snapshot controller failed to update %s on API server: %w", name, err)
}

// without returns the finalizers except some.
func without(finalizers []string, removed ...string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return slices.Contains(removed, f) })
}
