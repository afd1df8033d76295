package deployment

import (
	"cmp"
	"context"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/volsim/volsim/internal/workload"
)

// wasScaled reports whether the number of replicas has changed since a set was last written.
//
// Upstream: pkg/controller/deployment DeploymentController.isScalingEvent (v1.36).
func (r *rollout) wasScaled() bool {
	return slices.ContainsFunc(active(r.all()), func(set *appsv1.ReplicaSet) bool {
		desired, ok := numberOf(set, desiredAnnotation)
		return ok && desired != *r.d.Spec.Replicas
	})
}

// scale scales a Deployment that is not rolled out. One that is paused is also cleaned up.
//
// Upstream: pkg/controller/deployment DeploymentController.sync (v1.36).
func (r *rollout) scale(ctx context.Context) error {
	r.deadlines.remove(workload.Key(r.d))
	if _, err := r.resize(ctx, r.scaled()...); err != nil {
		return err
	}
	if _, rollsBack := rollbackTo(r.d); r.d.Spec.Paused && !rollsBack {
		if err := r.cleanUp(ctx); err != nil {
			return err
		}
	}
	return r.writeStatus(ctx, r.newStatus())
}

// scaled returns the sizes of sets after the number of replicas has changed. A single set gets all of
// them. Several sets keep their proportions, so that the rollout gets no faster. What rounding leaves
// goes to the largest set.
//
// Differs: a single set of the right size is annotated. In upstream, a Deployment whose set was scaled by
// others to the size that it gets later is never rolled out again.
//
// Upstream: pkg/controller/deployment DeploymentController.scale (v1.36).
func (r *rollout) scaled() []resize {
	replicas := *r.d.Spec.Replicas
	if set, ok := r.activeOrLatest(); ok {
		if set == nil {
			return nil
		}
		desired, ok := numberOf(set, desiredAnnotation)
		return []resize{{set: set, to: replicas, annotate: ok && wanted(set) > 0 && desired != replicas}}
	}
	var out []resize
	if r.isSaturated() {
		for _, set := range active(r.old) {
			out = append(out, resize{set: set})
		}
		return out
	}
	if !isRolling(r.d) {
		return nil
	}
	sets := active(r.all())
	allowed := int32(0)
	if replicas > 0 {
		surge, _ := fences(r.d)
		allowed = replicas + surge
	}
	more := allowed - sum(sets, wanted)
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		bySize := -cmp.Compare(wanted(a), wanted(b))
		if more > 0 {
			return cmp.Or(bySize, olderFirst(b, a))
		}
		return cmp.Or(bySize, olderFirst(a, b))
	})
	added := int32(0)
	for _, set := range sets {
		n := r.proportion(set, more, added)
		added += n
		out = append(out, resize{set: set, to: wanted(set) + n, annotate: true})
	}
	out[0].to = max(0, out[0].to+more-added)
	return out
}

// activeOrLatest returns the only set that wants pods. If none does it returns the latest set, which is
// nil if there is none. If several do it returns false.
//
// Upstream: pkg/controller/deployment/util FindActiveOrLatest (v1.36).
func (r *rollout) activeOrLatest() (set *appsv1.ReplicaSet, ok bool) {
	switch sets := active(r.all()); {
	case len(sets) > 1:
		return nil, false
	case len(sets) == 1:
		return sets[0], true
	case r.newest != nil:
		return r.newest, true
	case len(r.old) > 0:
		return r.old[len(r.old)-1], true
	default:
		return nil, true
	}
}

// isSaturated reports whether the new set has all replicas, and they are available.
//
// Upstream: pkg/controller/deployment/util IsSaturated (v1.36).
func (r *rollout) isSaturated() bool {
	if r.newest == nil {
		return false
	}
	replicas := *r.d.Spec.Replicas
	desired, ok := numberOf(r.newest, desiredAnnotation)
	return ok && desired == replicas && wanted(r.newest) == replicas && available(r.newest) == replicas
}

// proportion returns the part of a set in a number of additional replicas, which is negative if there
// are too many. So many of them have been given to other sets.
//
// Upstream: pkg/controller/deployment/util GetReplicaSetProportion, getReplicaSetFraction (v1.36).
func (r *rollout) proportion(set *appsv1.ReplicaSet, more, added int32) int32 {
	has, replicas := wanted(set), *r.d.Spec.Replicas
	if has == 0 || more == added {
		return 0
	}
	part := -has
	if replicas > 0 {
		surge, _ := fences(r.d)
		before, ok := numberOf(set, maxAnnotation)
		if !ok || before == 0 {
			before = r.d.Status.Replicas // the annotation was changed by others
		}
		if before == 0 {
			return 0
		}
		part = int32(math.Round(float64(has*(replicas+surge))/float64(before))) - has
	}
	if more > 0 {
		return min(part, more-added)
	}
	return max(part, more-added)
}
