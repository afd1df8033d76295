package pvcprotection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
)

// podsByClaim is the index of pods by the keys of the claims they use. Controllers of one component share it by its name.
//
// Upstream: pkg/controller/volume/common PodPVCIndex (v1.36).
const podsByClaim = "pod-pvc-index"

func indexPodsByClaim(pods cache.Indexer) {
	if _, ok := pods.GetIndexers()[podsByClaim]; ok {
		return
	}
	err := pods.AddIndexers(cache.Indexers{podsByClaim: func(obj any) ([]string, error) {
		return claimKeysOf(obj.(*corev1.Pod)), nil
	}})
	if err != nil {
		panic("pvcprotection: index of pods: " + err.Error())
	}
}

// claimKeysOf lists the keys of the claims a pod may use, those of its ephemeral volumes included, in the pod's order.
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

// uses tells whether a pod keeps a claim of its namespace from going. Only a scheduled pod does: the kubelet does not
// start one whose claim is being deleted.
//
// Upstream: pkg/controller/volume/pvcprotection podUsesPVCForDeletion (v1.36).
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		switch {
		case volume.PersistentVolumeClaim != nil:
			if volume.PersistentVolumeClaim.ClaimName == claim.Name {
				return true
			}
		case volume.Ephemeral != nil:
			if ephemeral.VolumeClaimName(pod, volume) == claim.Name && ephemeral.VolumeIsForPod(pod, claim) == nil &&
				!isShutDown(pod) {
				return true
			}
		}
	}
	return false
}

// isShutDown tells whether the kubelet is done with a pod, or somebody forced its deletion: it only waits to be removed.
//
// Upstream: pkg/controller/volume/pvcprotection podIsShutDown (v1.36).
func isShutDown(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
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
