package kubelet

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/kubelet/container"
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

// Stdin returns what a run of a container reads, whose spec asks for stdin. nil: it reads nothing, or an earlier kubelet has
// started it. It must be called from a task of the kubelet's process.
//
// Differs: upstream's runtime keeps stdin open while no kubelet runs.
//
// Upstream: pkg/kubelet Kubelet.GetAttach (v1.36).
func (k *Kubelet) Stdin(run container.Run) *container.Input { return k.inputs[run] }
