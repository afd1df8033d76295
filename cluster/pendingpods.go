package cluster

import (
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/invariant"
)

// A podCount is what the pods of a workload are.
type podCount struct {
	active, ready int32
	terminating   bool // a pod is, which some controllers count, and others do not
	nodes         sets.Set[string]
	revisions     map[string]int32 // those of a StatefulSet or DaemonSet, by revision

	// Of the ReplicaSets of a Deployment:
	wanted, parts int32 // pods, and how many want some
	unavailable   bool  // one does not have all its pods
}

// rollsOut reports whether nothing holds up a rollout that has not ended, or that its controller has not seen a
// step of it. The counts of pods in the status may be the same before and after a step.
func (p podCount) rollsOut(of fake.Object) bool {
	switch of := of.(type) {
	case *appsv1.Deployment:
		return !of.Spec.Paused && !p.unavailable && (p.parts > 1 || p.wanted != ptr.Deref(of.Spec.Replicas, 1))
	case *appsv1.DaemonSet:
		rolls := of.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType && len(p.revisions) > 1 && p.ready == p.active
		missing := !p.terminating && len(p.nodes) < int(of.Status.DesiredNumberScheduled)
		return of.Status.NumberMisscheduled == 0 && (rolls || missing)
	case *appsv1.StatefulSet:
		return !p.terminating && p.revisions[of.Status.UpdateRevision] != of.Status.UpdatedReplicas
	default:
		return false
	}
}

// unseenPods returns the workloads whose status does not have the pods that are ready, those that must go on,
// and the pods whose containers must. A controller writes its status after it has acted on what it has seen:
// an ordered set has its next pod by then. Without this, a world might seem at rest between two pods.
func (c *Cluster) unseenPods() []invariant.PendingObject {
	unseen := c.restlessPods()
	count := c.podCounts()
	for _, w := range workloadControllers {
		if !c.runs(w.component) {
			continue
		}
		for _, obj := range c.server.List(w.resource) {
			if obj.GetDeletionTimestamp() != nil {
				continue
			}
			pods := count()[obj.GetUID()]
			if all, ready, known := reportedPods(obj); known {
				unseen = append(unseen, compare(w.kind, obj, all, ready, pods)...)
			}
			if pods.rollsOut(obj) {
				unseen = append(unseen, newPending(w.kind, obj, "has not rolled out all its pods"))
			}
		}
	}
	if !c.runs("job") {
		return unseen
	}
	for _, obj := range c.server.List("jobs") {
		job := obj.(*batchv1.Job)
		switch pods := count()[job.UID]; {
		case !mustEnd(job):
		case pods.active == 0 && !pods.terminating:
			unseen = append(unseen, newPending("Job", job, "has not ended, and has no pod"))
		default:
			unseen = append(unseen, compare("Job", job, job.Status.Active, ptr.Deref(job.Status.Ready, 0), pods)...)
		}
	}
	return unseen
}

// restlessPods returns the pods whose kubelets have an exit or a restart of a container left to do, and those
// whose jobs have not counted them.
func (c *Cluster) restlessPods() []invariant.PendingObject {
	var restless []invariant.PendingObject
	for _, obj := range c.server.List("pods") {
		pod := obj.(*corev1.Pod)
		switch {
		case workload.IsTerminating(pod): // as PendingObjects says
		case c.kubeletMustAdvance(pod):
			restless = append(restless, newPending("pod", pod, "has a container that exits or is restarted"))
		case workload.HasEnded(pod) && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) && c.runs("job"):
			restless = append(restless, newPending("pod", pod, "has ended, and its job has not counted it"))
		}
	}
	return restless
}

// kubeletMustAdvance reports whether the kubelet of a pod's node has something left to do for its containers.
func (c *Cluster) kubeletMustAdvance(pod *corev1.Pod) bool {
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.name == pod.Spec.NodeName })
	if i < 0 {
		return false
	}
	k := c.nodes[i].kubelet.Load()
	return k != nil && k.MustAdvance(pod)
}

// compare compares the pods that a workload has with those of its status.
func compare(kind string, obj fake.Object, all, ready int32, has podCount) []invariant.PendingObject {
	pods := has.active
	if kind == "DaemonSet" {
		pods = int32(len(has.nodes)) //nolint:gosec // few
	}
	if has.terminating || all == pods && ready == has.ready {
		return nil
	}
	return []invariant.PendingObject{
		newPending(kind, obj, fmt.Sprintf("reports %d pods, %d ready, and has %d, %d ready", all, ready, pods, has.ready)),
	}
}

// mustEnd reports whether the job controller has to bring a job to its end.
func mustEnd(job *batchv1.Job) bool {
	return job.DeletionTimestamp == nil && workload.EndOf(job) == nil && !ptr.Deref(job.Spec.Suspend, false) &&
		ptr.Deref(job.Spec.Parallelism, 1) > 0 &&
		ptr.Deref(job.Spec.ManagedBy, batchv1.JobControllerName) == batchv1.JobControllerName
}

// podCounts returns a function that counts the pods of each controller, by its UID, when it is called first.
// Those of a Deployment are what its ReplicaSets report, from which its controller counts.
func (c *Cluster) podCounts() func() map[types.UID]podCount {
	return sync.OnceValue(func() map[types.UID]podCount {
		counts := map[types.UID]podCount{}
		for _, obj := range c.server.List("pods") {
			pod := obj.(*corev1.Pod)
			owner := metav1.GetControllerOfNoCopy(pod)
			if owner == nil || workload.HasEnded(pod) {
				continue
			}
			count := counts[owner.UID]
			count.active++
			if count.nodes == nil {
				count.nodes, count.revisions = sets.New[string](), map[string]int32{}
			}
			count.nodes.Insert(pod.Spec.NodeName)
			count.revisions[pod.Labels[appsv1.ControllerRevisionHashLabelKey]]++
			if workload.Ready(pod) != nil {
				count.ready++
			}
			count.terminating = count.terminating || workload.IsTerminating(pod)
			counts[owner.UID] = count
		}
		for _, obj := range c.server.List("replicasets") {
			set := obj.(*appsv1.ReplicaSet)
			if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
				count := counts[owner.UID]
				wants := ptr.Deref(set.Spec.Replicas, 1)
				count.active += set.Status.Replicas
				count.ready += set.Status.ReadyReplicas
				count.wanted += wants
				count.parts += min(wants, 1)
				count.unavailable = count.unavailable || set.Status.AvailableReplicas != wants || set.Status.Replicas != wants
				counts[owner.UID] = count
			}
		}
		return counts
	})
}

// reportedPods returns how many pods a workload has by its status, and how many are ready; for a DaemonSet, on
// how many nodes. The status of a DaemonSet leaves out the pods of nodes that it does not select any more, and
// says nothing if there are some.
func reportedPods(obj fake.Object) (all, ready int32, known bool) {
	switch obj := obj.(type) {
	case *appsv1.DaemonSet:
		return obj.Status.CurrentNumberScheduled, obj.Status.NumberReady, obj.Status.NumberMisscheduled == 0
	case *appsv1.Deployment:
		return obj.Status.Replicas, obj.Status.ReadyReplicas, true
	case *appsv1.ReplicaSet:
		return obj.Status.Replicas, obj.Status.ReadyReplicas, true
	case *appsv1.StatefulSet:
		return obj.Status.Replicas, obj.Status.ReadyReplicas, true
	case *corev1.ReplicationController:
		return obj.Status.Replicas, obj.Status.ReadyReplicas, true
	default:
		return 0, 0, false
	}
}
