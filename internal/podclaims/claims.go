package podclaims

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Name returns the name of the claim of a pod's volume: the one that it refers to, or the one of an
// ephemeral volume. It is "" for other volumes.
func Name(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, volume)
	default:
		return ""
	}
}

// Keys returns the keys, namespace/name, of the claims of a pod's volumes, in the pod's order.
func Keys(pod *corev1.Pod) []string {
	var keys []string
	for i := range pod.Spec.Volumes {
		if name := Name(pod, &pod.Spec.Volumes[i]); name != "" {
			keys = append(keys, pod.Namespace+"/"+name)
		}
	}
	return keys
}

// Index is the name of the index of pods by Keys.
//
// Upstream: pkg/controller/volume/common PodPVCIndex (v1.36).
const Index = "pod-pvc-index"

// AddIndex adds Index to a cache of pods, unless another controller of the process has added it.
// The cache must hold pods only.
func AddIndex(pods cache.Indexer) {
	if _, ok := pods.GetIndexers()[Index]; ok {
		return
	}
	err := pods.AddIndexers(cache.Indexers{Index: func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("podclaims: %T is not a pod", obj)
		}
		return Keys(pod), nil
	}})
	if err != nil {
		panic("podclaims: pod index: " + err.Error())
	}
}

// Using returns the pods of an indexed cache with a volume that uses the claim. A cache without
// Index panics.
func Using(pods cache.Indexer, key string) []*corev1.Pod {
	objects, err := pods.ByIndex(Index, key)
	if err != nil {
		panic("podclaims: pod index: " + err.Error())
	}
	using := make([]*corev1.Pod, len(objects))
	for i, obj := range objects {
		using[i] = obj.(*corev1.Pod)
	}
	return using
}

// Terminated reports whether no container of a pod runs, nor will: the pod has ended, or it is
// being deleted and no container runs.
//
// Upstream: pkg/volume/util IsPodTerminated (v1.36).
func Terminated(pod *corev1.Pod) bool {
	s := &pod.Status
	return s.Phase == corev1.PodFailed || s.Phase == corev1.PodSucceeded || pod.DeletionTimestamp != nil &&
		noneRunning(s.InitContainerStatuses) && noneRunning(s.ContainerStatuses) &&
		noneRunning(s.EphemeralContainerStatuses)
}

func noneRunning(containers []corev1.ContainerStatus) bool {
	for i := range containers {
		if s := &containers[i].State; s.Terminated == nil && s.Waiting == nil {
			return false
		}
	}
	return true
}
