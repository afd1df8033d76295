package kubelet

import (
	corev1 "k8s.io/api/core/v1"
)

// Pod returns a pod of the node as the kubelet last saw it, which is read-only, or nil. Of two with the same name it
// is the newer one. It must be called from a task of the kubelet's process.
//
// Upstream: pkg/kubelet Kubelet.GetPodByName (v1.36).
func (k *Kubelet) Pod(namespace, name string) *corev1.Pod {
	var newest *corev1.Pod
	for _, pod := range k.sortedPods() {
		if pod.Namespace == namespace && pod.Name == name && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	return newest
}
