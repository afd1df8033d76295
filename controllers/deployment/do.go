package deployment

import (
	"context"
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/workload"
)

// updateSet writes a set, which replaces the one of its UID in the rollout.
func (r *rollout) updateSet(ctx context.Context, set *appsv1.ReplicaSet) error {
	stored, err := r.client.AppsV1().ReplicaSets(set.Namespace).Update(ctx, set, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.written.Add(r.d, wroteSet, stored)
	if at := r.place(stored); at != nil {
		*at = stored
	}
	return nil
}

// place returns where the rollout has a set; nil if it does not.
func (r *rollout) place(set *appsv1.ReplicaSet) **appsv1.ReplicaSet {
	if r.newest != nil && r.newest.UID == set.UID {
		return &r.newest
	}
	for i := range r.old {
		if r.old[i].UID == set.UID {
			return &r.old[i]
		}
	}
	return nil
}

// updateStatus writes the status and the annotations of the Deployment.
//
// Differs: upstream goes on with the earlier version. Its next write of the same sync conflicts.
func (r *rollout) updateStatus(ctx context.Context) error {
	stored, err := r.client.AppsV1().Deployments(r.d.Namespace).UpdateStatus(ctx, r.d, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.written.Add(r.d, wroteDeployment, stored)
	r.d = stored.DeepCopy()
	return nil
}

// resize writes the sizes of sets, one after the other, and reports whether one has changed.
//
// Upstream: pkg/controller/deployment DeploymentController.scaleReplicaSet (v1.36).
func (r *rollout) resize(ctx context.Context, changes ...resize) (scaled bool, err error) {
	for _, change := range changes {
		set := (*r.place(change.set)).DeepCopy()
		from := wanted(set)
		if from == change.to && !change.annotate {
			continue
		}
		set.Spec.Replicas = ptr.To(change.to)
		if !annotateSizes(r.d, set) && from == change.to {
			continue
		}
		if err := r.updateSet(ctx, set); err != nil {
			return scaled, err
		}
		if from == change.to {
			continue
		}
		scaled = true
		direction := "down"
		if from < change.to {
			direction = "up"
		}
		r.recorder.Event(r.d, corev1.EventTypeNormal, "ScalingReplicaSet",
			fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, set.Name, from, change.to))
	}
	return scaled, nil
}

// ensureNew creates the new set, if it does not exist.
//
// Upstream: pkg/controller/deployment DeploymentController.getNewReplicaSet (v1.36).
func (r *rollout) ensureNew(ctx context.Context) error {
	if r.newest != nil {
		return nil
	}
	set, revision := r.newSet(), r.nextRevision()
	set.OwnerReferences = []metav1.OwnerReference{workload.ControllerRef(r.d, deploymentKind)}
	created, err := r.client.AppsV1().ReplicaSets(set.Namespace).Create(ctx, set, metav1.CreateOptions{})
	existed := apierrors.IsAlreadyExists(err)
	switch {
	case existed:
		if created, err = r.findTaken(ctx, set.Name, err); err != nil {
			return err
		}
	case err != nil && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case err != nil:
		message := fmt.Sprintf("Failed to create new replica set %q: %v", set.Name, err)
		r.recorder.Event(r.d, corev1.EventTypeWarning, "ReplicaSetCreateError", message)
		if hasDeadline(r.d) {
			r.setCondition(&r.d.Status, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ReplicaSetCreateError", message)
			_ = r.updateStatus(ctx) // the sync is retried in any case
		}
		return err
	default:
		r.written.Add(r.d, wroteSet, created)
		if size := wanted(created); size > 0 {
			r.recorder.Event(r.d, corev1.EventTypeNormal, "ScalingReplicaSet",
				fmt.Sprintf("Scaled up replica set %s from 0 to %d", created.Name, size))
		}
	}
	r.newest = created
	return r.noteNew(ctx, fmt.Sprint(revision), !existed, "NewReplicaSetCreated",
		fmt.Sprintf("Created new replica set %q", created.Name))
}

// findTaken returns the set that has the name of the new one, if it is the new one: it was created
// before, and the cache lacked it. Otherwise the hashes of two templates collide: the Deployment counts
// that, and will try another name.
func (r *rollout) findTaken(ctx context.Context, name string, taken error) (*appsv1.ReplicaSet, error) {
	set, err := r.sets.ReplicaSets(r.d.Namespace).Get(name)
	if err != nil {
		return nil, err
	}
	if metav1.IsControlledBy(set, r.d) && sameTemplate(&set.Spec.Template, &r.d.Spec.Template) {
		return set, nil
	}
	r.d.Status.CollisionCount = ptr.To(ptr.Deref(r.d.Status.CollisionCount, 0) + 1)
	_ = r.updateStatus(ctx) // the sync is retried in any case
	return nil, taken
}

// cleanUp deletes old sets beyond the limit of the history. A set that has pods, or may get them, is
// not deleted.
//
// Differs: the UID is a precondition. Upstream deletes by name.
//
// Upstream: pkg/controller/deployment DeploymentController.cleanupDeployment (v1.36).
func (r *rollout) cleanUp(ctx context.Context) error {
	limit := r.d.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return nil
	}
	sets := slices.DeleteFunc(slices.Clone(r.old), func(set *appsv1.ReplicaSet) bool { return set.DeletionTimestamp != nil })
	slices.SortStableFunc(sets, byRevision)
	for _, set := range sets[:max(0, len(sets)-int(*limit))] {
		if existing(set) != 0 || wanted(set) != 0 || set.Generation > set.Status.ObservedGeneration {
			continue
		}
		err := r.client.AppsV1().ReplicaSets(set.Namespace).Delete(ctx, set.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(set.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
