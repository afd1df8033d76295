package interpodaffinity

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Events returns the changes of pods and nodes that make a difference.
func (*Plugin) Events() []framework.EventHint {
	return []framework.EventHint{
		{Resource: framework.Pod, Action: framework.Add | framework.UpdatePodLabel | framework.Delete, Hint: isPodRelevant},
		{Resource: framework.Node, Action: framework.Add | framework.UpdateNodeLabel, Hint: isNodeRelevant},
	}
}

// isPodRelevant reports whether a pod appeared that the pod must be near, or one vanished that it must be away
// from, or one that does not want it. A pod whose labels changed does both. The namespaces that terms select by
// label are not looked up, as upstream.
func isPodRelevant(pod *corev1.Pod, old, new any) bool {
	was, _ := old.(*corev1.Pod)
	is, _ := new.(*corev1.Pod)
	if was != nil && is != nil && is.UID == pod.UID {
		return true
	}
	if was == nil && is == nil || isUnassigned(was) || isUnassigned(is) {
		return false
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return true
	}
	appears := is != nil && matchesAll(info.RequiredAffinity, is) && (was == nil || !matchesAll(info.RequiredAffinity, was))
	vanishes := was != nil && matchesAll(info.RequiredAntiAffinity, was) && (is == nil || !matchesAll(info.RequiredAntiAffinity, is))
	if appears || vanishes || is != nil {
		return appears || vanishes
	}
	deleted, err := framework.NewPodInfo(was)
	return err != nil || matchesAll(deleted.RequiredAntiAffinity, pod)
}

func isUnassigned(pod *corev1.Pod) bool {
	return pod != nil && pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == ""
}

// isNodeRelevant reports whether a node comes to a domain of the pod's affinity, or leaves one of its
// anti-affinity. A new node may have no pods that the pod must be away from.
func isNodeRelevant(pod *corev1.Pod, old, new any) bool {
	was, _ := old.(*corev1.Node)
	is, _ := new.(*corev1.Node)
	if is == nil {
		return false
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return true
	}
	for i := range info.RequiredAffinity {
		now, ok := is.Labels[info.RequiredAffinity[i].TopologyKey]
		before, had := labelOf(was, info.RequiredAffinity[i].TopologyKey)
		if ok && (!had || before != now) {
			return true
		}
	}
	for i := range info.RequiredAntiAffinity {
		now, ok := is.Labels[info.RequiredAntiAffinity[i].TopologyKey]
		before, had := labelOf(was, info.RequiredAntiAffinity[i].TopologyKey)
		if was == nil || had && (!ok || before != now) {
			return true
		}
	}
	return false
}

func labelOf(node *corev1.Node, key string) (value string, ok bool) {
	if node != nil {
		value, ok = node.Labels[key]
	}
	return value, ok
}
