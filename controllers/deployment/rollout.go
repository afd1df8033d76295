package deployment

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A rollout is a Deployment with its sets, in one sync. Its objects have the controller's own writes.
type rollout struct {
	*controller

	d      *appsv1.Deployment
	newest *appsv1.ReplicaSet   // the set of the present template; nil: none
	old    []*appsv1.ReplicaSet // the oldest first
	now    metav1.Time
}

// split finds the new set among all, the oldest first. Of several with the template, the oldest is new.
//
// Upstream: pkg/controller/deployment/util FindNewReplicaSet, FindOldReplicaSets (v1.36).
func (r *rollout) split(sets []*appsv1.ReplicaSet) {
	for _, set := range sets {
		if r.newest == nil && sameTemplate(&set.Spec.Template, &r.d.Spec.Template) {
			r.newest = set
			continue
		}
		r.old = append(r.old, set)
	}
}

// all returns the old sets, and the new one if it exists.
func (r *rollout) all() []*appsv1.ReplicaSet {
	if r.newest == nil {
		return r.old
	}
	return append(slices.Clone(r.old), r.newest)
}

// active returns the sets that want pods.
func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(sets), func(set *appsv1.ReplicaSet) bool { return *set.Spec.Replicas == 0 })
}

// sum adds a number of each set.
func sum(sets []*appsv1.ReplicaSet, of func(*appsv1.ReplicaSet) int32) int32 {
	var n int32
	for _, set := range sets {
		n += of(set)
	}
	return n
}

func wanted(set *appsv1.ReplicaSet) int32    { return *set.Spec.Replicas }
func existing(set *appsv1.ReplicaSet) int32  { return set.Status.Replicas }
func available(set *appsv1.ReplicaSet) int32 { return set.Status.AvailableReplicas }

func isRolling(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
}

// fences returns by how many pods a rollout may exceed the replicas, and how many of them may be
// unavailable. If both round to 0, one may be unavailable.
//
// Upstream: pkg/controller/deployment/util ResolveFenceposts, MaxSurge, MaxUnavailable (v1.36).
func fences(d *appsv1.Deployment) (surge, unavailable int32) {
	if !isRolling(d) {
		return 0, 0
	}
	replicas := *d.Spec.Replicas
	scaled := func(v *intstr.IntOrString, up bool) int32 {
		n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(v, intstr.FromInt32(0)), int(replicas), up)
		if err != nil {
			return 0 // the API server refuses it
		}
		return int32(n) //nolint:gosec // validated
	}
	if update := d.Spec.Strategy.RollingUpdate; update != nil {
		surge, unavailable = scaled(update.MaxSurge, true), scaled(update.MaxUnavailable, false)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, replicas)
}

// A resize is a set with its new number of replicas.
type resize struct {
	set      *appsv1.ReplicaSet // maybe as it was before it was written
	to       int32
	annotate bool // write it also if only its annotations change
}
