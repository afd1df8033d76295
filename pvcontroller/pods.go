package pvcontroller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
)

// podsByClaim is the index of pods by the keys of the claims they use.
//
// Upstream: pkg/controller/volume/common PodPVCIndex (v1.36).
const podsByClaim = "pod-pvc-index"

// indexPodsByClaim adds the index unless another controller of the component has.
func indexPodsByClaim(pods cache.Indexer) {
	if _, ok := pods.GetIndexers()[podsByClaim]; ok {
		return
	}
	err := pods.AddIndexers(cache.Indexers{podsByClaim: func(obj any) ([]string, error) {
		return claimKeysOf(obj.(*corev1.Pod)), nil
	}})
	if err != nil {
		panic("pvcontroller: index of pods: " + err.Error())
	}
}

// claimKeysOf lists the keys of the claims a pod uses, those of its ephemeral volumes included, in the pod's order.
func claimKeysOf(pod *corev1.Pod) []string {
	var claims []string
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		switch {
		case volume.PersistentVolumeClaim != nil:
			claims = append(claims, pod.Namespace+"/"+volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			claims = append(claims, pod.Namespace+"/"+ephemeral.VolumeClaimName(pod, volume))
		}
	}
	return claims
}

// podsOf returns the pods that use a claim and have not ended.
func (c *Controller) podsOf(claimKey string) []*corev1.Pod {
	objects, err := c.pods.ByIndex(podsByClaim, claimKey)
	if err != nil {
		panic("pvcontroller: index of pods: " + err.Error())
	}
	var pods []*corev1.Pod
	for _, obj := range objects {
		if pod := obj.(*corev1.Pod); !isTerminated(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// unscheduledPods names the pods that use a claim and have no node yet, sorted.
//
// Differs: upstream names them in the order of a map.
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

// isTerminated tells whether a pod's containers do not run any more, nor will.
//
// Upstream: pkg/volume/util IsPodTerminated (v1.36).
func isTerminated(pod *corev1.Pod) bool {
	s := &pod.Status
	return s.Phase == corev1.PodFailed || s.Phase == corev1.PodSucceeded || pod.DeletionTimestamp != nil &&
		noneRuns(s.InitContainerStatuses) && noneRuns(s.ContainerStatuses) && noneRuns(s.EphemeralContainerStatuses)
}

func noneRuns(containers []corev1.ContainerStatus) bool {
	for i := range containers {
		if s := &containers[i].State; s.Terminated == nil && s.Waiting == nil {
			return false
		}
	}
	return true
}
