package statefulset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/workload"
)

// status returns the status of the set with these pods.
//
// Upstream: pkg/controller/statefulset updateStatus, computeReplicaStatus (v1.36).
func (s *state) status(pods []*corev1.Pod) appsv1.StatefulSetStatus {
	collisions := s.collisions
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: s.set.Generation, CollisionCount: &collisions,
		CurrentRevision: s.current.Name, UpdateRevision: s.update.Name,
	}
	for _, pod := range pods {
		status.Replicas++
		if isRunningAndReady(pod) {
			status.ReadyReplicas++
			if workload.IsAvailable(pod, s.set.Spec.MinReadySeconds, s.now) {
				status.AvailableReplicas++
			}
		}
		if workload.IsTerminating(pod) {
			continue
		}
		if revisionOf(pod) == s.current.Name {
			status.CurrentReplicas++
		}
		if revisionOf(pod) == s.update.Name {
			status.UpdatedReplicas++
		}
	}
	return status
}

// completeUpdate makes the update revision the current one when all pods have it and are ready.
//
// Upstream: pkg/controller/statefulset completeRollingUpdate (v1.36).
func completeUpdate(set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus) {
	wanted := *set.Spec.Replicas
	if set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		status.UpdatedReplicas == wanted && status.ReadyReplicas == wanted && status.Replicas == wanted {
		status.CurrentReplicas, status.CurrentRevision = status.UpdatedReplicas, status.UpdateRevision
	}
}

// changes reports whether a status must be written.
//
// Upstream: pkg/controller/statefulset inconsistentStatus (v1.36).
func changes(status, old *appsv1.StatefulSetStatus) bool {
	return status.ObservedGeneration > old.ObservedGeneration ||
		status.Replicas != old.Replicas || status.ReadyReplicas != old.ReadyReplicas ||
		status.AvailableReplicas != old.AvailableReplicas || status.CurrentReplicas != old.CurrentReplicas ||
		status.UpdatedReplicas != old.UpdatedReplicas ||
		status.CurrentRevision != old.CurrentRevision || status.UpdateRevision != old.UpdateRevision
}

// writeStatus writes the status of a set if it has changed.
func (c *controller) writeStatus(
	ctx context.Context, set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus,
) error {
	completeUpdate(set, status)
	if !changes(status, &set.Status) {
		return nil
	}
	changed := set.DeepCopy()
	changed.Status = *status
	stored, err := c.client.AppsV1().StatefulSets(set.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err == nil {
		c.written.Add(set, wroteSet, stored)
	}
	return err
}
