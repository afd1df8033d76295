package replicaset

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volsim/volsim/internal/workload"
)

// newStatus returns the status of a set with these replicas. failure is the error of creating or
// deleting pods.
//
// Upstream: pkg/controller/replicaset calculateStatus (v1.36).
func newStatus(
	set *appsv1.ReplicaSet, active []*corev1.Pod, terminating int32, failure error, now time.Time,
) appsv1.ReplicaSetStatus {
	status := appsv1.ReplicaSetStatus{
		ObservedGeneration: set.Status.ObservedGeneration,
		Replicas:           int32(len(active)), TerminatingReplicas: &terminating, //nolint:gosec // they fit into memory
		Conditions: set.Status.Conditions,
	}
	template := labels.SelectorFromSet(set.Spec.Template.Labels)
	for _, pod := range active {
		if template.Matches(labels.Set(pod.Labels)) {
			status.FullyLabeledReplicas++
		}
		if workload.Ready(pod) != nil {
			status.ReadyReplicas++
			if workload.IsAvailable(pod, set.Spec.MinReadySeconds, now) {
				status.AvailableReplicas++
			}
		}
	}
	isFailure := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	failed := slices.ContainsFunc(status.Conditions, isFailure)
	switch {
	case failure == nil && failed:
		status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), isFailure)
	case failure != nil && !failed:
		reason := "FailedCreate"
		if status.Replicas > *set.Spec.Replicas {
			reason = "FailedDelete"
		}
		status.Conditions = append(slices.Clone(status.Conditions), appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
			Reason: reason, Message: failure.Error(),
		})
	}
	return status
}

// writeStatus writes the status of a set if it has changed.
//
// Differs: upstream repeats a write that failed with the set's last version. Here it is retried as
// any other failure.
//
// Upstream: pkg/controller/replicaset updateReplicaSetStatus (v1.36).
func (c *controller) writeStatus(ctx context.Context, set *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if set.Generation == set.Status.ObservedGeneration && equality.Semantic.DeepEqual(set.Status, status) {
		return nil
	}
	status.ObservedGeneration = set.Generation
	changed := set.DeepCopy()
	changed.Status = status
	stored, err := c.sets.updateStatus(ctx, changed)
	if err == nil {
		c.written.Add(set, wroteSet, stored)
	}
	return err
}
