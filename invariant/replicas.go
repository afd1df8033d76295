package invariant

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// A replicaKind is a kind of objects, called sets here, that have a number of equal pods.
type replicaKind struct{ resource, kind, controller string }

// replicaKinds are these kinds, and the components that create their pods.
var replicaKinds = []replicaKind{
	{"replicasets", "ReplicaSet", "replicaset"},
	{"replicationcontrollers", "ReplicationController", "replicationcontroller"},
}

// replicas has what the rules read of a set.
type replicas struct {
	wanted   int32 // number of pods
	observed int64 // the generation
	failed   bool  // a condition says that pods cannot be created or deleted
}

func replicasOf(obj any) (r replicas, ok bool) {
	switch obj := obj.(type) {
	case *appsv1.ReplicaSet:
		return replicas{*obj.Spec.Replicas, obj.Status.ObservedGeneration, len(obj.Status.Conditions) > 0}, true
	case *corev1.ReplicationController:
		return replicas{*obj.Spec.Replicas, obj.Status.ObservedGeneration, len(obj.Status.Conditions) > 0}, true
	default:
		return replicas{}, false
	}
}

// isReplica reports whether a pod counts for its set.
func isReplica(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// podsOf returns the pods that count for a set.
func (c *Checker) podsOf(kind replicaKind, set types.UID) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range c.API.List("pods") {
		if pod := obj.(*corev1.Pod); isReplica(pod) && ownerOf(pod, kind.kind) == set {
			pods = append(pods, pod)
		}
	}
	return pods
}

// beginReplicas checks each pod that a controller creates: the number of pods of its set.
func beginReplicas(c *Checker) watcher {
	w := watcher{writes: []string{"pods"}}
	limits := reuse.Map[string, *excess](c.Reuse) // by resource
	for _, kind := range replicaKinds {
		limits[kind.resource] = newExcess(c, kind.controller)
		w.commits, w.writes = append(w.commits, kind.resource), append(w.writes, kind.resource)
	}
	w.commit = func(made fake.Commit) {
		set, _ := replicasOf(made.After)
		limits[made.Resource].note(made, set.wanted)
	}
	w.event = func(r trace.Record) {
		for _, kind := range replicaKinds {
			limits[kind.resource].event(r)
		}
	}
	w.write = func(r trace.Record) {
		for _, kind := range replicaKinds {
			c.checkReplicas(r, kind, limits[kind.resource])
		}
	}
	return w
}

// checkReplicas checks a write: the status of a set, or a pod that its controller creates.
func (c *Checker) checkReplicas(r trace.Record, kind replicaKind, e *excess) {
	if set, is := replicasOf(r.After); is {
		e.observes(r, r.After.(metav1.Object), set.observed)
	}
	after, _ := r.After.(*corev1.Pod)
	if after == nil || r.Before != nil || !e.enlarged(r, after) {
		return
	}
	owner := ownerOf(after, kind.kind)
	l := e.limits[owner]
	if l == nil {
		return
	}
	limit, pods := l.highest(), c.podsOf(kind, owner)
	if len(pods) <= int(limit) {
		return
	}
	set := metav1.GetControllerOfNoCopy(after).Name
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		return pod.UID != after.UID && !e.mustKnow(r, after.Namespace+"/"+set, "pods", pod)
	})
	if len(pods) > int(limit) {
		c.report("I46", "%s created pod %s/%s: %s %s has %d pods, and at most %d replicas",
			r.Task, after.Namespace, after.Name, kind.kind, set, len(pods), limit)
	}
}

// missingReplica says what a set lacks; "" if it lacks nothing, or cannot get it.
func (c *Checker) missingReplica(kind replicaKind, set fake.Object) string {
	wanted, _ := replicasOf(set)
	switch pods := len(c.podsOf(kind, set.GetUID())); {
	case wanted.observed < set.GetGeneration():
		return unobserved
	case !wanted.failed && pods != int(wanted.wanted):
		return fmt.Sprintf("has %d pods of %d", pods, wanted.wanted)
	}
	return ""
}
