package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/podnetwork"
)

// managedAttachAnnotation makes the attach/detach controller attach and detach for the node.
const managedAttachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

// version is the Kubernetes version that the kubelet reports.
const version = "v1.36.3"

// nodeResources are the capacity of each node.
var nodeResources = corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
	corev1.ResourcePods: resource.MustParse("110"),
}

// NewNode returns the Node object as a kubelet registers it. The attach/detach controller attaches
// its volumes.
func NewNode(name string, at time.Time) *corev1.Node {
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

// syncNode registers the node and reports the volumes in use, each if necessary.
//
// Differs: upstream patches the node's status every 10 s; this kubelet patches it when there is
// something to report.
//
// Upstream: pkg/kubelet registerWithAPIServer, syncNodeStatus (v1.36).
func (k *Kubelet) syncNode(ctx context.Context, name string) error {
	k.begin()
	if !k.registered() {
		node := NewNode(k.cfg.Node, k.cfg.Process.Now())
		node.Status.Addresses = podnetwork.NodeAddresses(k.cfg.Node, k.cfg.Address)
		if k.cfg.SelfAttach {
			delete(node.Annotations, managedAttachAnnotation)
		}
		_, err := k.cfg.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	} else if err := k.reconcileAttachAnnotation(ctx); err != nil {
		return err
	}
	k.beginLease()
	if err := k.reportReady(ctx); err != nil {
		return err
	}
	if err := k.registerDrivers(ctx); err != nil {
		return err
	}
	if !k.volumes.NeedsReport() {
		return nil
	}
	volumes := k.volumes.VolumesInUse()
	var p struct {
		Status struct {
			VolumesInUse []corev1.UniqueVolumeName `json:"volumesInUse"`
		} `json:"status"`
	}
	p.Status.VolumesInUse = volumes
	patch, err := json.Marshal(&p)
	if err != nil {
		return fmt.Errorf("patch of node status: %w", err)
	}
	node, err := k.cfg.Client.CoreV1().Nodes().
		Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	k.volumes.MarkReportedInUse(volumes, node)
	if k.volumes.NeedsReport() {
		k.status.Add(name)
	}
	return nil
}

func (k *Kubelet) registered() bool {
	_, err := k.nodes.Get(k.cfg.Node)
	return err == nil
}

// reportsReady reports whether the kubelet must report that its node is ready. The node lifecycle
// controller sets the conditions of a node that did not renew its Lease.
func (k *Kubelet) reportsReady(node *corev1.Node) bool {
	return k.cfg.NodeLease && !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// reportReady reports that the node is ready, if its Node says otherwise.
//
// Upstream: pkg/kubelet/nodestatus ReadyCondition, MemoryPressureCondition and its like (v1.36).
func (k *Kubelet) reportReady(ctx context.Context) error {
	node, err := k.nodes.Get(k.cfg.Node)
	if err != nil || !k.reportsReady(node) {
		return nil // a node without a Node is registered as ready
	}
	now := metav1.NewTime(k.cfg.Process.Now())
	conditions := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	}
	for i := range conditions {
		conditions[i].LastHeartbeatTime, conditions[i].LastTransitionTime = now, now
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return fmt.Errorf("patch of node status: %w", err)
	}
	_, err = k.cfg.Client.CoreV1().Nodes().
		Patch(ctx, k.cfg.Node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// reconcileAttachAnnotation updates managedAttachAnnotation of an existing Node.
//
// Upstream: pkg/kubelet reconcileCMADAnnotationWithExistingNode (v1.36).
func (k *Kubelet) reconcileAttachAnnotation(ctx context.Context) error {
	node, err := k.nodes.Get(k.cfg.Node)
	if err != nil || (node.Annotations[managedAttachAnnotation] == "") == k.cfg.SelfAttach {
		return nil // a deleted Node is registered again
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, managedAttachAnnotation)
	if k.cfg.SelfAttach {
		patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, managedAttachAnnotation)
	}
	_, err = k.cfg.Client.CoreV1().Nodes().Patch(ctx, k.cfg.Node, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	return err
}
