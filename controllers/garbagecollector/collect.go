package garbagecollector

import (
	"context"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// attemptToDelete reads an object from the server, and deletes it if all its owners are absent.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector.attemptToDeleteItem.
func (c *controller) attemptToDelete(ctx context.Context, key identity) error {
	n := c.graph[key.UID]
	if n == nil || n.beingDeleted && !n.deletingDependents {
		return nil
	}
	id := n.id
	latest, err := c.get(ctx, id)
	switch {
	case apierrors.IsNotFound(err), err == nil && latest.UID != id.UID:
		c.verifiedAbsent(id)
		return nil
	case err != nil:
		return err
	}
	if n = c.graph[id.UID]; n == nil {
		return nil // deleted during the request
	}
	if n.deletingDependents {
		return c.waitForDependents(ctx, n, latest)
	}
	if len(latest.OwnerReferences) == 0 {
		return nil
	}
	solid, dangling, waiting, err := c.classify(ctx, id, latest.OwnerReferences)
	if err != nil {
		return err
	}
	switch {
	case len(solid) > 0 && len(dangling)+len(waiting) == 0:
		return nil
	case len(solid) > 0:
		// The reference to a waiting owner is removed too; otherwise that owner would wait
		// indefinitely.
		_, err := c.removeOwners(ctx, id, append(dangling, waiting...))
		return err
	case len(waiting) > 0 && len(n.dependents) > 0:
		return c.deleteInForeground(ctx, n, latest)
	}
	policy := metav1.DeletePropagationBackground
	switch {
	case hasFinalizer(latest, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case hasFinalizer(latest, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	return c.delete(ctx, id, latest, policy)
}

// deleteInForeground deletes an object that has dependents, and whose owner waits for it. If one of
// the dependents also waits, the objects may form a cycle. Then the object stops blocking its
// owners.
//
// Differs: the deletion is based on the result of the patch. Upstream's is based on the version
// before its own patch, which conflicts, and is retried.
func (c *controller) deleteInForeground(ctx context.Context, n *node, latest *metav1.PartialObjectMetadata) error {
	id := n.id
	circle := slices.ContainsFunc(n.sorted(), func(dependent *node) bool { return dependent.deletingDependents })
	if circle && slices.ContainsFunc(latest.OwnerReferences, blocks) {
		var err error
		if latest, err = c.unblockOwners(ctx, id, latest.OwnerReferences); err != nil {
			return err
		}
	}
	return c.delete(ctx, id, latest, metav1.DeletePropagationForeground)
}

// waitForDependents removes the finalizer of an object that waited for its dependents, if none of
// them blocks it any longer.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector.processDeletingDependentsItem.
func (c *controller) waitForDependents(ctx context.Context, n *node, latest *metav1.PartialObjectMetadata) error {
	blocking := n.blocking()
	if len(blocking) == 0 {
		return c.removeFinalizer(ctx, n.id, latest, metav1.FinalizerDeleteDependents)
	}
	for _, dependent := range blocking {
		if !dependent.deletingDependents {
			c.collect.Add(dependent.id)
		}
	}
	return nil
}

// classify reads an object's owners from the server: solid ones exist, dangling ones do not, and
// waiting ones wait for their dependents to be deleted.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector.classifyReferences.
func (c *controller) classify(
	ctx context.Context, id identity, refs []metav1.OwnerReference,
) (solid, dangling, waiting []types.UID, err error) {
	for _, ref := range refs {
		owner, err := c.owner(ctx, id, ref)
		switch {
		case err != nil:
			return nil, nil, nil, err
		case owner == nil:
			dangling = append(dangling, ref.UID)
		case waitsFor(owner, metav1.FinalizerDeleteDependents):
			waiting = append(waiting, ref.UID)
		default:
			solid = append(solid, ref.UID)
		}
	}
	return solid, dangling, waiting, nil
}

// owner returns the owner of a reference, or nil if it does not exist.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector.isDangling.
func (c *controller) owner(
	ctx context.Context, id identity, ref metav1.OwnerReference,
) (*metav1.PartialObjectMetadata, error) {
	owner := ownerOf(ref, id.Namespace)
	if c.absent.has(owner) || c.absent.has(owner.withoutNamespace()) {
		return nil, nil
	}
	_, namespaced, ok := c.watcher.Mapping(owner.gvk())
	switch {
	case !ok:
		return nil, unservedError{owner.gvk()}
	case namespaced && id.Namespace == "":
		return nil, errNamespacedOwner
	case !namespaced:
		owner = owner.withoutNamespace()
	}
	latest, err := c.get(ctx, owner)
	switch {
	case apierrors.IsNotFound(err), err == nil && latest.UID != ref.UID:
		c.absent.add(owner)
		return nil, nil
	case err != nil:
		return nil, err
	}
	return latest, nil
}

// delete deletes an object in the given version. On a conflict it deletes the current version if
// the owners are the same.
//
// Differs: the retry has the current resourceVersion as a precondition. Upstream's has the UID
// only, and so may delete an object that has gained an owner in between.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector.deleteObject.
func (c *controller) delete(
	ctx context.Context, id identity, latest *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation,
) error {
	client, err := c.resource(id)
	if err != nil {
		return err
	}
	opts := metav1.DeleteOptions{
		PropagationPolicy: &policy,
		Preconditions:     &metav1.Preconditions{UID: &id.UID, ResourceVersion: &latest.ResourceVersion},
	}
	err = client.Delete(ctx, id.Name, opts)
	if apierrors.IsConflict(err) {
		current, getErr := client.Get(ctx, id.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(getErr):
			err = getErr
		case getErr == nil && current.UID == id.UID && current.ResourceVersion != latest.ResourceVersion &&
			apiequality.Semantic.DeepEqual(current.OwnerReferences, latest.OwnerReferences):
			opts.Preconditions.ResourceVersion = &current.ResourceVersion
			err = client.Delete(ctx, id.Name, opts)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		c.verifiedAbsent(id)
		return nil
	case err != nil:
		return fmt.Errorf("delete %s: %w", id, err)
	}
	return nil
}
