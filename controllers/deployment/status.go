package deployment

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// newStatus returns the status of the Deployment with its sets.
//
// Upstream: pkg/controller/deployment calculateStatus (v1.36).
func (r *rollout) newStatus() *appsv1.DeploymentStatus {
	all := r.all()
	status := &appsv1.DeploymentStatus{
		ObservedGeneration: r.d.Generation,
		Replicas:           sum(all, existing),
		ReadyReplicas:      sum(all, func(set *appsv1.ReplicaSet) int32 { return set.Status.ReadyReplicas }),
		AvailableReplicas:  sum(all, available), TerminatingReplicas: terminating(all),
		UnavailableReplicas: max(0, sum(all, wanted)-sum(all, available)),
		CollisionCount:      r.d.Status.CollisionCount,
		Conditions:          slices.Clone(r.d.Status.Conditions),
	}
	if r.newest != nil {
		status.UpdatedReplicas = existing(r.newest)
	}
	if _, unavailable := fences(r.d); status.AvailableReplicas >= *r.d.Spec.Replicas-unavailable {
		r.setCondition(status, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable",
			"Deployment has minimum availability.")
	} else {
		r.setCondition(status, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable",
			"Deployment does not have minimum availability.")
	}
	return status
}

// terminating returns the number of pods that are being deleted; nil if a set does not report it.
//
// Upstream: pkg/controller/deployment/util GetTerminatingReplicaCountForReplicaSets (v1.36).
func terminating(sets []*appsv1.ReplicaSet) *int32 {
	var n int32
	for _, set := range sets {
		switch {
		case set.Status.TerminatingReplicas != nil:
			n += *set.Status.TerminatingReplicas
		case set.Status.ObservedGeneration != 0:
			return nil
		}
	}
	return &n
}

// writeStatus writes the status if it has changed.
//
// Upstream: pkg/controller/deployment DeploymentController.syncDeploymentStatus (v1.36).
func (r *rollout) writeStatus(ctx context.Context, status *appsv1.DeploymentStatus) error {
	if equality.Semantic.DeepEqual(&r.d.Status, status) {
		return nil
	}
	r.d.Status = *status
	return r.updateStatus(ctx)
}

// isComplete reports whether all replicas are updated and available, and no others exist.
//
// Upstream: pkg/controller/deployment/util DeploymentComplete (v1.36).
func isComplete(d *appsv1.Deployment, status *appsv1.DeploymentStatus) bool {
	replicas := *d.Spec.Replicas
	return status.UpdatedReplicas == replicas && status.Replicas == replicas && status.AvailableReplicas == replicas &&
		status.ObservedGeneration >= d.Generation
}

// conditionOf returns a condition; nil if the status does not have it.
func conditionOf(status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	i := slices.IndexFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &status.Conditions[i]
}

// setCondition sets a condition to a state at the present time.
func (r *rollout) setCondition(
	status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType, value corev1.ConditionStatus, reason, message string,
) {
	addCondition(status, appsv1.DeploymentCondition{
		Type: kind, Status: value, Reason: reason, Message: message, LastUpdateTime: r.now, LastTransitionTime: r.now,
	})
}

// addCondition adds a condition, or replaces the one of its type, unless status and reason are the same.
//
// Upstream: pkg/controller/deployment/util SetDeploymentCondition (v1.36).
func addCondition(status *appsv1.DeploymentStatus, c appsv1.DeploymentCondition) {
	if old := conditionOf(status, c.Type); old != nil && old.Status == c.Status {
		if old.Reason == c.Reason {
			return
		}
		c.LastTransitionTime = old.LastTransitionTime
	}
	removeCondition(status, c.Type)
	status.Conditions = append(status.Conditions, c)
}

// removeCondition removes a condition.
//
// Upstream: pkg/controller/deployment/util RemoveDeploymentCondition (v1.36).
func removeCondition(status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) {
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c appsv1.DeploymentCondition) bool {
		return c.Type == kind
	})
}
