package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// A Relation is the relation of an owner to an object that it controls, or that has no controller.
type Relation int

// The relations. A Stranger is left alone. An Adopted object is an orphan that becomes a Member; a
// Released one becomes an orphan.
const (
	Stranger Relation = iota
	Member
	Adopted
	Released
)

// Relate returns the relation of an owner to an object. matches says that the owner selects it.
//
// Upstream: pkg/controller BaseControllerRefManager.ClaimObject (v1.36).
func Relate(owner, obj metav1.Object, matches bool) Relation {
	ref := metav1.GetControllerOfNoCopy(obj)
	switch {
	case ref != nil && ref.UID != owner.GetUID():
		return Stranger
	case ref != nil && matches:
		return Member
	case owner.GetDeletionTimestamp() != nil:
		return Stranger
	case ref != nil:
		return Released
	case matches && obj.GetDeletionTimestamp() == nil && obj.GetNamespace() == owner.GetNamespace():
		return Adopted
	default:
		return Stranger
	}
}

// Claims adopts and releases objects for an owner.
type Claims[T metav1.Object] struct {
	Owner metav1.Object
	Kind  schema.GroupVersionKind // of the owner
	What  string                  // the kind of the objects, for errors
	Match func(T) bool            // reports whether the owner selects an object
	// Fresh reads the owner from the server.
	Fresh func(ctx context.Context) (metav1.Object, error)
	// Patch does a strategic merge patch.
	Patch func(ctx context.Context, obj T, patch []byte) error
	// Finalizer is added to what is adopted and removed from what is released, unless it is "".
	Finalizer string

	checked  bool
	checkErr error
}

// Claim returns the objects that the owner controls, in their order. It adopts orphans and releases
// objects that the owner does not select. A failure does not keep it from trying the others.
//
// Upstream: pkg/controller PodControllerRefManager.ClaimPods, ReplicaSetControllerRefManager
// .ClaimReplicaSets (v1.36).
func (c *Claims[T]) Claim(ctx context.Context, objs []T) ([]T, error) {
	var claimed []T
	var errs []error
	for _, obj := range objs {
		switch Relate(c.Owner, obj, c.Match(obj)) {
		case Member:
			claimed = append(claimed, obj)
		case Adopted:
			switch err := c.Adopt(ctx, obj); {
			case err == nil:
				claimed = append(claimed, obj)
			case !apierrors.IsNotFound(err):
				errs = append(errs, err)
			}
		case Released:
			if err := c.release(ctx, obj); err != nil {
				errs = append(errs, err)
			}
		case Stranger:
		}
	}
	return claimed, errors.Join(errs...)
}

// MayAdopt reads the owner once, before the first adoption. An owner that is being deleted, or that
// another of its name replaced, adopts nothing.
//
// Upstream: pkg/controller RecheckDeletionTimestamp (v1.36).
func (c *Claims[T]) MayAdopt(ctx context.Context) error {
	if c.checked {
		return c.checkErr
	}
	c.checked = true
	owner := c.Owner
	fresh, err := c.Fresh(ctx)
	switch {
	case err != nil:
		c.checkErr = err
	case fresh.GetUID() != owner.GetUID():
		c.checkErr = fmt.Errorf("original %s %v/%v is gone: got uid %v, wanted %v",
			c.Kind.Kind, owner.GetNamespace(), owner.GetName(), fresh.GetUID(), owner.GetUID())
	case fresh.GetDeletionTimestamp() != nil:
		c.checkErr = fmt.Errorf("%v/%v has just been deleted at %v",
			owner.GetNamespace(), owner.GetName(), fresh.GetDeletionTimestamp())
	}
	return c.checkErr
}

// Adopt makes the owner the controller of an object.
func (c *Claims[T]) Adopt(ctx context.Context, obj T) error {
	if err := c.MayAdopt(ctx); err != nil {
		return fmt.Errorf("can't adopt %s %v/%v (%v): %w", c.What, obj.GetNamespace(), obj.GetName(), obj.GetUID(), err)
	}
	patch := ownerPatch{ownerPatchMeta{UID: obj.GetUID(), OwnerReferences: []any{ControllerRef(c.Owner, c.Kind)}}}
	if c.Finalizer != "" {
		patch.Metadata.Finalizers = []string{c.Finalizer}
	}
	return c.Patch(ctx, obj, mustMarshal(patch))
}

// release removes the reference of an object to the owner. An object that has gone, or has been
// replaced, needs nothing.
func (c *Claims[T]) release(ctx context.Context, obj T) error {
	patch := ownerPatch{ownerPatchMeta{UID: obj.GetUID(), OwnerReferences: []any{
		map[string]any{"$patch": "delete", "uid": c.Owner.GetUID()},
	}}}
	if c.Finalizer != "" {
		patch.Metadata.NotFinalizers = []string{c.Finalizer}
	}
	err := c.Patch(ctx, obj, mustMarshal(patch))
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// An ownerPatch is a strategic merge patch of an object's owner references. Its UID protects another
// object of the same name.
type ownerPatch struct {
	Metadata ownerPatchMeta `json:"metadata"`
}

type ownerPatchMeta struct {
	UID             types.UID `json:"uid"`
	OwnerReferences []any     `json:"ownerReferences"`
	Finalizers      []string  `json:"finalizers,omitempty"`
	NotFinalizers   []string  `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
}

func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("workload: encode patch: " + err.Error()) // strings and booleans only
	}
	return data
}

// ControllerRef returns a reference to the controller of an object.
func ControllerRef(owner metav1.Object, kind schema.GroupVersionKind) metav1.OwnerReference {
	apiVersion, name := kind.ToAPIVersionAndKind()
	return metav1.OwnerReference{
		APIVersion: apiVersion, Kind: name, Name: owner.GetName(), UID: owner.GetUID(),
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
}
