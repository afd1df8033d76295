package cluster

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

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

// pendingObjects returns what the control plane has yet to do: what the API objects of volumes and pods
// show, and the specs of workloads that their controllers have not seen.
func (c *Cluster) pendingObjects() []invariant.PendingObject {
	pending := invariant.PendingObjects(c.server)
	for _, w := range workloadControllers {
		runs := slices.ContainsFunc(c.components, func(p *componentState) bool { return p.name == w.component })
		for _, obj := range c.server.List(w.resource) {
			if runs && obj.GetDeletionTimestamp() == nil && obj.GetGeneration() > observedGeneration(obj) {
				pending = append(pending, invariant.PendingObject{
					Kind: w.kind, Name: objectKey(obj.GetNamespace(), obj.GetName()), Why: "has a spec that its controller has not seen",
				})
			}
		}
	}
	return pending
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
