package deployment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
)

// roll brings a rolling update one step further: the new set is scaled up, or old ones down, or the
// history is cleaned up.
//
// Differs: upstream ignores an error of scaling old sets down, and waits for another event.
//
// Upstream: pkg/controller/deployment DeploymentController.rolloutRolling (v1.36).
func (r *rollout) roll(ctx context.Context) error {
	if err := r.ensureNew(ctx); err != nil {
		return err
	}
	scaled, err := r.resize(ctx, resize{set: r.newest, to: r.newSize(wanted(r.newest))})
	if err != nil {
		return err
	}
	if !scaled {
		if scaled, err = r.resize(ctx, r.smallerOld()...); err != nil {
			return err
		}
	}
	if !scaled && isComplete(r.d, &r.d.Status) {
		if err := r.cleanUp(ctx); err != nil {
			return err
		}
	}
	return r.writeRolloutStatus(ctx)
}

// newSize returns the number of replicas of the new set, which has so many: as many as fit below the
// limit of all pods.
//
// Upstream: pkg/controller/deployment DeploymentController.reconcileNewReplicaSet,
// pkg/controller/deployment/util NewRSNewReplicas (v1.36).
func (r *rollout) newSize(has int32) int32 {
	replicas := *r.d.Spec.Replicas
	if !isRolling(r.d) || has >= replicas {
		return replicas
	}
	surge, _ := fences(r.d)
	free := replicas + surge - sum(r.old, wanted) - has
	return has + max(0, min(free, replicas-has))
}

// smallerOld returns the sizes of the old sets that are scaled down, the oldest first. Pods that are not
// available go first, because they would block the update; their set may have two sizes. Available pods
// go as far as enough of them remain. The pods that the new set lacks count as not available.
//
// Upstream: pkg/controller/deployment DeploymentController.reconcileOldReplicaSets,
// cleanupUnhealthyReplicas, scaleDownOldReplicaSetsForRollingUpdate (v1.36).
func (r *rollout) smallerOld() []resize {
	_, unavailable := fences(r.d)
	minimum := *r.d.Spec.Replicas - unavailable
	limit := sum(r.all(), wanted) - minimum - (wanted(r.newest) - available(r.newest))
	old := active(r.old)
	if len(old) == 0 || limit <= 0 {
		return nil
	}
	var out []resize
	sizes := map[*appsv1.ReplicaSet]int32{}
	for _, set := range old {
		sizes[set] = wanted(set)
		switch n := min(limit, wanted(set)-available(set)); {
		case limit == 0:
		case n < 0:
			return out // its status is that of an earlier size
		case n > 0:
			limit -= n
			sizes[set] -= n
			out = append(out, resize{set: set, to: sizes[set]})
		}
	}
	spare := sum(r.all(), available) - minimum
	for _, set := range old {
		if n := min(sizes[set], spare); n > 0 {
			spare -= n
			out = append(out, resize{set: set, to: sizes[set] - n})
		}
	}
	return out
}
