package replicaset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/workload"
)

// controllerIndex indexes sets by the UID of their controller.
const controllerIndex = "controller of a replica set"

func indexSets(sets cache.Indexer) {
	err := sets.AddIndexers(cache.Indexers{controllerIndex: func(obj any) ([]string, error) {
		if ref := metav1.GetControllerOfNoCopy(obj.(*appsv1.ReplicaSet)); ref != nil {
			return []string{string(ref.UID)}, nil
		}
		return nil, nil
	}})
	if err != nil {
		panic("replicaset: index of sets: " + err.Error())
	}
}

// related returns the pods of all sets that have the controller of this one: those of a Deployment. A
// set without a controller has none, and neither has a ReplicationController.
//
// Upstream: pkg/controller/replicaset ReplicaSetController.getIndirectlyRelatedPods (v1.36).
func (c *controller) related(set *appsv1.ReplicaSet) []*corev1.Pod {
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil || c.setIndex == nil {
		return nil
	}
	sets, err := c.setIndex.ByIndex(controllerIndex, string(ref.UID))
	if err != nil {
		panic("replicaset: index of sets: " + err.Error())
	}
	var related []*corev1.Pod
	seen := map[types.UID]bool{}
	for _, obj := range sets {
		sibling := obj.(*appsv1.ReplicaSet)
		selector, err := metav1.LabelSelectorAsSelector(sibling.Spec.Selector)
		if err != nil {
			continue // it selects nothing
		}
		pods, err := c.pods.Pods(sibling.Namespace).List(selector)
		if err != nil {
			continue // a lister does not fail
		}
		for _, pod := range pods {
			if !seen[pod.UID] {
				seen[pod.UID] = true
				related = append(related, pod)
			}
		}
	}
	return related
}

// toDelete returns so many pods to delete.
//
// Upstream: pkg/controller/replicaset getPodsToDelete (v1.36).
func toDelete(pods, related []*corev1.Pod, count int, now time.Time) []*corev1.Pod {
	if count >= len(pods) {
		return pods
	}
	ranks := map[string]int{}
	for _, pod := range related {
		if workload.IsActive(pod) {
			ranks[pod.Spec.NodeName]++
		}
	}
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return compare(a, b, ranks, now) })
	return pods[:count]
}

// compare returns which of two pods is deleted first: the one on no node, in an earlier phase, not
// ready, with the lower cost, on a node with more related pods, ready for a shorter time, with more
// restarts, or younger. Times are compared by the magnitude of their distance from now. If that is the
// same, the UID decides.
//
// Upstream: pkg/controller ActivePodsWithRanks.Less (v1.36).
func compare(a, b *corev1.Pod, ranks map[string]int, now time.Time) int {
	readyA, readyB := workload.Ready(a), workload.Ready(b)
	order := cmp.Or(
		cmp.Compare(number(a.Spec.NodeName != ""), number(b.Spec.NodeName != "")),
		cmp.Compare(phaseOrder[a.Status.Phase], phaseOrder[b.Status.Phase]),
		cmp.Compare(number(readyA != nil), number(readyB != nil)),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		-cmp.Compare(ranks[a.Spec.NodeName], ranks[b.Spec.NodeName]),
	)
	if order != 0 {
		return order
	}
	if readyA != nil && !readyA.LastTransitionTime.Equal(&readyB.LastTransitionTime) {
		return compareAges(a, b, readyA.LastTransitionTime, readyB.LastTransitionTime, now)
	}
	restartsA, sidecarsA := restarts(a)
	restartsB, sidecarsB := restarts(b)
	if order := cmp.Or(-cmp.Compare(restartsA, restartsB), -cmp.Compare(sidecarsA, sidecarsB)); order != 0 {
		return order
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return compareAges(a, b, a.CreationTimestamp, b.CreationTimestamp, now)
	}
	return 0
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Upstream: pkg/controller podPhaseToOrdinal (v1.36).
var phaseOrder = map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}

// compareAges returns the order of pods by times that differ. An unknown time is first.
//
// Upstream: pkg/controller logarithmicRankDiff (v1.36).
func compareAges(a, b *corev1.Pod, timeA, timeB metav1.Time, now time.Time) int {
	if timeA.IsZero() || timeB.IsZero() {
		return cmp.Compare(number(!timeA.IsZero()), number(!timeB.IsZero()))
	}
	magnitude := func(t metav1.Time) int {
		age := now.Sub(t.Time)
		if age <= 0 {
			return -1
		}
		return int(math.Log2(float64(age)))
	}
	return cmp.Or(cmp.Compare(magnitude(timeA), magnitude(timeB)), cmp.Compare(a.UID, b.UID))
}

// deletionCost returns the cost of an annotation; 0 if it has none that is valid.
//
// Upstream: pkg/apis/core/v1/helper GetDeletionCostFromPodAnnotations (v1.36).
func deletionCost(pod *corev1.Pod) int64 {
	text := pod.Annotations[corev1.PodDeletionCost]
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' || text[0] == '0' && text != "0" {
		return 0
	}
	return cost
}

// restarts returns the restarts of the container with the most, and those of such a sidecar.
//
// Upstream: pkg/controller maxContainerRestarts (v1.36).
func restarts(pod *corev1.Pod) (containers, sidecars int32) {
	for i := range pod.Status.ContainerStatuses {
		containers = max(containers, pod.Status.ContainerStatuses[i].RestartCount)
	}
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == status.Name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}) {
			sidecars = max(sidecars, status.RestartCount)
		}
	}
	return containers, sidecars
}
