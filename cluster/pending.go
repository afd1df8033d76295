package cluster

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
)

// workloadControllers are the controllers that report up to which generation they have seen a spec.
var workloadControllers = []struct{ resource, component, kind string }{
	{"daemonsets", "daemonset", "DaemonSet"},
	{"deployments", "deployment", "Deployment"},
	{"replicasets", "replicaset", "ReplicaSet"},
	{"replicationcontrollers", "replicationcontroller", "ReplicationController"},
	{"statefulsets", "statefulset", "StatefulSet"},
}

// owned are resources whose objects the garbage collector deletes with their owners.
var owned = []struct{ resource, kind string }{
	{"jobs", "Job"}, {"replicasets", "ReplicaSet"}, {"pods", "pod"}, {"persistentvolumeclaims", "claim"},
}

// ownerResources are the resources of those owners, by kind.
var ownerResources = map[string]string{
	"CronJob": "cronjobs", "DaemonSet": "daemonsets", "Deployment": "deployments", "Job": "jobs", "Pod": "pods",
	"ReplicaSet": "replicasets", "ReplicationController": "replicationcontrollers", "StatefulSet": "statefulsets",
}

// pendingObjects returns what the control plane has yet to do: what the API objects of volumes, pods and
// snapshots show, the specs and pods of workloads that their controllers have not seen, and what their deletion leaves
// to the garbage collector. A live world changes while it is read, and an effect may end what its cause left
// to do. So the state in which nothing is left is that of one revision.
func (c *Cluster) pendingObjects() []invariant.PendingObject {
	for {
		before := c.server.Revision()
		pending := slices.Concat(invariant.PendingObjects(c.server), c.unseenSpecs(), c.unseenPods(), c.withoutOwners(), c.pendingSnapshots())
		if len(pending) > 0 || c.server.Revision() == before {
			return pending
		}
	}
}

// unseenSpecs returns the workloads whose controllers have not seen their specs, or have not acted on them: as
// upstream's, a controller that awaits an event of its last write only reports what there is.
func (c *Cluster) unseenSpecs() []invariant.PendingObject {
	var unseen []invariant.PendingObject
	for _, w := range workloadControllers {
		if !c.runs(w.component) {
			continue
		}
		for _, obj := range c.server.List(w.resource) {
			if obj.GetDeletionTimestamp() != nil {
				continue
			}
			if obj.GetGeneration() > observedGeneration(obj) {
				unseen = append(unseen, newPending(w.kind, obj, "has a spec that its controller has not seen"))
			} else if has, wants := replicas(obj); has != wants {
				unseen = append(unseen, newPending(w.kind, obj, fmt.Sprintf("has %d of %d replicas", has, wants)))
			}
		}
	}
	return unseen
}

// withoutOwners returns the objects that the garbage collector has yet to delete because their owners are
// gone.
func (c *Cluster) withoutOwners() []invariant.PendingObject {
	if !c.runs("garbagecollector") {
		return nil
	}
	var left []invariant.PendingObject
	for _, r := range owned {
		for _, obj := range c.server.List(r.resource) {
			if obj.GetDeletionTimestamp() == nil && c.isWithoutOwners(obj) {
				left = append(left, newPending(r.kind, obj, "has no owner any more"))
			}
		}
	}
	return left
}

func newPending(kind string, obj metav1.Object, why string) invariant.PendingObject {
	return invariant.PendingObject{Kind: kind, Name: objectKey(obj.GetNamespace(), obj.GetName()), Why: why}
}

// runs reports whether the world has a component.
func (c *Cluster) runs(component string) bool {
	return slices.ContainsFunc(c.components, func(p *componentState) bool { return p.name == component })
}

// isWithoutOwners reports whether an object had owners and none of them is left.
func (c *Cluster) isWithoutOwners(obj fake.Object) bool {
	refs := obj.GetOwnerReferences()
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool {
		resource, ok := ownerResources[ref.Kind]
		if !ok {
			return true // of another kind, which the garbage collector knows
		}
		owner, ok := c.server.Get(resource, obj.GetNamespace(), ref.Name)
		return ok && owner.GetUID() == ref.UID
	})
}

// observedGeneration returns the generation of a workload that its controller has seen.
func observedGeneration(obj fake.Object) int64 {
	switch obj := obj.(type) {
	case *appsv1.DaemonSet:
		return obj.Status.ObservedGeneration
	case *appsv1.Deployment:
		return obj.Status.ObservedGeneration
	case *appsv1.ReplicaSet:
		return obj.Status.ObservedGeneration
	case *appsv1.StatefulSet:
		return obj.Status.ObservedGeneration
	case *corev1.ReplicationController:
		return obj.Status.ObservedGeneration
	default:
		return 0
	}
}

// replicas returns how many pods a ReplicaSet or ReplicationController has, and how many it wants. They are
// equal for other objects, and for one whose pods cannot be created.
func replicas(obj fake.Object) (has, wants int32) {
	switch obj := obj.(type) {
	case *appsv1.ReplicaSet:
		if !slices.ContainsFunc(obj.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
			return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
		}) {
			return obj.Status.Replicas, ptr.Deref(obj.Spec.Replicas, 1)
		}
	case *corev1.ReplicationController:
		if !slices.ContainsFunc(obj.Status.Conditions, func(c corev1.ReplicationControllerCondition) bool {
			return c.Type == corev1.ReplicationControllerReplicaFailure && c.Status == corev1.ConditionTrue
		}) {
			return obj.Status.Replicas, ptr.Deref(obj.Spec.Replicas, 1)
		}
	}
	return 0, 0
}
