package deployment

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/workload"
)

// recreate brings an update one step further in which no pod of the new set exists besides one of an
// old set.
//
// Upstream: pkg/controller/deployment DeploymentController.rolloutRecreate (v1.36).
func (r *rollout) recreate(ctx context.Context) error {
	var none []resize
	for _, set := range active(r.old) {
		none = append(none, resize{set: set})
	}
	scaled, err := r.resize(ctx, none...)
	if err != nil {
		return err
	}
	if !scaled && !r.hasOldPods() {
		if err := r.ensureNew(ctx); err != nil {
			return err
		}
		if _, err := r.resize(ctx, resize{set: r.newest, to: *r.d.Spec.Replicas}); err != nil {
			return err
		}
		if isComplete(r.d, &r.d.Status) {
			if err := r.cleanUp(ctx); err != nil {
				return err
			}
		}
	}
	return r.writeRolloutStatus(ctx)
}

// hasOldPods reports whether a pod of an old set may run.
//
// Upstream: pkg/controller/deployment oldPodsRunning (v1.36).
func (r *rollout) hasOldPods() bool {
	return slices.ContainsFunc(r.old, func(set *appsv1.ReplicaSet) bool {
		return existing(set) > 0 || slices.ContainsFunc(workload.Pods(r.podIndex, set, false), func(pod *corev1.Pod) bool {
			return !workload.HasEnded(pod)
		})
	})
}
