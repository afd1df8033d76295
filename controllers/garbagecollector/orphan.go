package garbagecollector

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// attemptToOrphan removes the references of the dependents of an object, and then its finalizer.
//
// Differs: one dependent after the other; upstream patches them in parallel.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector.attemptToOrphanWorker.
func (c *controller) attemptToOrphan(ctx context.Context, key identity) error {
	n := c.graph[key.UID]
	if n == nil {
		return nil
	}
	id := n.id
	var errs []error
	for _, dependent := range n.sorted() {
		_, err := c.removeOwners(ctx, dependent.id, []types.UID{id.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("orphan %s: %w", dependent.id, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	latest, err := c.get(ctx, id)
	switch {
	case apierrors.IsNotFound(err), err == nil && latest.UID != id.UID:
		return nil
	case err != nil:
		return err
	}
	return c.removeFinalizer(ctx, id, latest, metav1.FinalizerOrphanDependents)
}
