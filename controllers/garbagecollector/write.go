package garbagecollector

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
)

// resource returns the client for an object.
func (c *controller) resource(id identity) (metadata.ResourceInterface, error) {
	r, namespaced, ok := c.watcher.Mapping(id.gvk())
	switch {
	case !ok:
		return nil, unservedError{id.gvk()}
	case !namespaced:
		return c.client.Resource(r), nil
	case id.Namespace == "":
		return nil, errNamespacedOwner // a cluster-scoped object named it as its owner
	}
	return c.client.Resource(r).Namespace(id.Namespace), nil
}

func (c *controller) get(ctx context.Context, id identity) (*metav1.PartialObjectMetadata, error) {
	client, err := c.resource(id)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, id.Name, metav1.GetOptions{})
}

// patch is a patch of an object's metadata.
type patch struct {
	Metadata patchedMeta `json:"metadata"`
}

type patchedMeta struct {
	UID             types.UID `json:"uid,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	OwnerReferences any       `json:"ownerReferences,omitempty"`
}

// deletedReference deletes one reference in a strategic merge patch.
type deletedReference struct {
	Patch string    `json:"$patch"`
	UID   types.UID `json:"uid"`
}

// removeOwners removes references to owners from an object.
func (c *controller) removeOwners(
	ctx context.Context, id identity, owners []types.UID,
) (*metav1.PartialObjectMetadata, error) {
	deleted := make([]deletedReference, len(owners))
	for i, uid := range owners {
		deleted[i] = deletedReference{Patch: "delete", UID: uid}
	}
	return c.patchOwners(ctx, id, deleted, func(refs []metav1.OwnerReference) []metav1.OwnerReference {
		return slices.DeleteFunc(refs, func(ref metav1.OwnerReference) bool { return slices.Contains(owners, ref.UID) })
	})
}

// unblockOwners marks the references of an object as not blocking.
func (c *controller) unblockOwners(
	ctx context.Context, id identity, owners []metav1.OwnerReference,
) (*metav1.PartialObjectMetadata, error) {
	var blocking []metav1.OwnerReference
	for _, ref := range owners {
		if blocks(ref) {
			ref.BlockOwnerDeletion = ptr.To(false)
			blocking = append(blocking, ref)
		}
	}
	return c.patchOwners(ctx, id, blocking, func(refs []metav1.OwnerReference) []metav1.OwnerReference {
		for i := range refs {
			refs[i].BlockOwnerDeletion = ptr.To(false)
		}
		return refs
	})
}

// patchOwners patches an object's references. It uses a strategic merge patch. For a resource that
// does not support it, it uses a merge patch with change applied to the current references.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector.patch.
func (c *controller) patchOwners(ctx context.Context, id identity, strategic any,
	change func([]metav1.OwnerReference) []metav1.OwnerReference,
) (*metav1.PartialObjectMetadata, error) {
	client, err := c.resource(id)
	if err != nil {
		return nil, err
	}
	send := func(how types.PatchType, meta patchedMeta) (*metav1.PartialObjectMetadata, error) {
		return client.Patch(ctx, id.Name, how, mustMarshal(patch{meta}), metav1.PatchOptions{})
	}
	latest, err := send(types.StrategicMergePatchType, patchedMeta{UID: id.UID, OwnerReferences: strategic})
	if !apierrors.IsUnsupportedMediaType(err) {
		return latest, err
	}
	if latest, err = client.Get(ctx, id.Name, metav1.GetOptions{}); err != nil {
		return nil, err
	}
	refs := change(latest.OwnerReferences)
	if len(refs) == 0 {
		refs = nil
	}
	return send(types.MergePatchType, patchedMeta{
		UID: id.UID, ResourceVersion: latest.ResourceVersion, OwnerReferences: &refs,
	})
}

// removeFinalizer removes a finalizer from the given version of an object.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector.removeFinalizer.
func (c *controller) removeFinalizer(
	ctx context.Context, id identity, latest *metav1.PartialObjectMetadata, finalizer string,
) error {
	if !hasFinalizer(latest, finalizer) {
		return nil
	}
	client, err := c.resource(id)
	if err != nil {
		return err
	}
	var remaining []string
	for _, f := range latest.Finalizers {
		if f != finalizer {
			remaining = append(remaining, f)
		}
	}
	data := mustMarshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": latest.ResourceVersion, "finalizers": remaining,
	}})
	_, err = client.Patch(ctx, id.Name, types.MergePatchType, data, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("garbagecollector: encode patch: " + err.Error()) // strings only
	}
	return data
}
