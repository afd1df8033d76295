package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// managedAttachAnnotation lets the attach/detach controller attach and detach for the node.
	managedAttachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// nodeIDAnnotation holds what each driver calls the node.
	nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"
)

// version is that of Kubernetes whose kubelet this is.
const version = "v1.36.3"

// nodeResources is what each node has.
var nodeResources = corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
	corev1.ResourcePods: resource.MustParse("110"),
}

// nodeObject is the Node object as a kubelet registers it.
func nodeObject(name string, at time.Time) *corev1.Node {
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

// enrol stores what the kubelet of a node writes when it registers the node and the driver on it, so that the kubelet finds
// that done. Where the driver says more of itself than its node id, the kubelet adds it.
func (c *Cluster) enrol(name string, conn grpc.ClientConnInterface) error {
	info, err := csispec.NewNodeClient(conn).NodeGetInfo(context.Background(), &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("driver %s: NodeGetInfo: %w", c.driver.name(), err)
	}
	ids, err := json.Marshal(map[string]string{c.driver.name(): info.GetNodeId()})
	if err != nil {
		return fmt.Errorf("annotation of node %s: %w", name, err)
	}
	node := nodeObject(name, c.host.Now())
	node.Annotations[nodeIDAnnotation] = string(ids)
	if err := c.server.Add(node); err != nil {
		return err
	}
	stored, _ := c.server.Get("nodes", "", name)
	entry := storagev1.CSINodeDriver{Name: c.driver.name(), NodeID: info.GetNodeId()}
	if limit := int32(info.GetMaxVolumesPerNode()); limit > 0 {
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
	}
	return c.server.Add(&storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: stored.GetUID()}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{entry}},
	})
}
