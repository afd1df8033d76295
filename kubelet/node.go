package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// managedAttachAnnotation lets the attach/detach controller attach and detach for the node.
const managedAttachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

// version is that of Kubernetes whose kubelet this is.
const version = "v1.36.3"

// nodeResources is what each node has.
var nodeResources = corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
	corev1.ResourcePods: resource.MustParse("110"),
}

// NodeObject is the Node object as a kubelet registers it.
func NodeObject(name string, at time.Time) *corev1.Node {
	now := metav1.NewTime(at)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
			Annotations: map[string]string{managedAttachAnnotation: "true"},
		},
		Status: corev1.NodeStatus{
			Capacity: nodeResources.DeepCopy(), Allocatable: nodeResources.DeepCopy(),
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: version, OperatingSystem: "linux"},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				Message: "kubelet is posting ready status", LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}
}
