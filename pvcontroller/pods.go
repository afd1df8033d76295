package pvcontroller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/podclaims"
)

// podsOf returns the pods that use a claim and have not terminated.
func (c *Controller) podsOf(claimKey string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range podclaims.Using(c.pods, claimKey) {
		if !podclaims.Terminated(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// unscheduledPods returns the names of the pods that use a claim and have no node, sorted.
//
// Differs: upstream returns them in map order.
//
// Upstream: pkg/controller/volume/persistentvolume findNonScheduledPodsByPVC (v1.36).
func (c *Controller) unscheduledPods(claimKey string) []string {
	var names []string
	for _, pod := range c.podsOf(claimKey) {
		if pod.Spec.NodeName == "" {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}
