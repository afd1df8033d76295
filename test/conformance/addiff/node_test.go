package addiff

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/internal/podclaims"
)

// createNode creates a ready node.
type createNode struct {
	node      string
	unmanaged bool // its kubelet attaches volumes
}

func (m createNode) String() string {
	if m.unmanaged {
		return "node " + m.node + " is created, unmanaged"
	}
	return "node " + m.node + " is created"
}

func (m createNode) do(w *world) error {
	if _, ok := stored[*corev1.Node](w, "nodes", "", m.node); ok {
		return nil
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}
	if !m.unmanaged {
		n.Annotations = map[string]string{attachdetach.ManagedAnnotation: "true"}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err := w.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return err
}

// deleteNode deletes a node.
type deleteNode struct{ node string }

func (d deleteNode) String() string { return "node " + d.node + " is deleted" }

func (d deleteNode) do(w *world) error {
	err := w.client.CoreV1().Nodes().Delete(ctx, d.node, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// manageNode marks a node as managed.
type manageNode struct{ node string }

func (m manageNode) String() string { return "node " + m.node + " becomes managed" }

func (m manageNode) do(w *world) error {
	n, ok := stored[*corev1.Node](w, "nodes", "", m.node)
	if !ok || n.Annotations[attachdetach.ManagedAnnotation] != "" {
		return nil
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, attachdetach.ManagedAnnotation, "true")
	_, err := w.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	return err
}

// setReady sets a node's Ready condition.
type setReady struct {
	node   string
	status corev1.ConditionStatus
}

func (r setReady) String() string { return fmt.Sprintf("node %s ready: %s", r.node, r.status) }

func (r setReady) do(w *world) error {
	return w.patchStatus(r.node, "conditions", []map[string]any{{"type": "Ready", "status": r.status}})
}

// taintNode adds or removes the out-of-service taint of a node.
type taintNode struct {
	node string
	on   bool
}

func (t taintNode) String() string { return fmt.Sprintf("node %s out of service: %t", t.node, t.on) }

func (t taintNode) do(w *world) error {
	n, ok := stored[*corev1.Node](w, "nodes", "", t.node)
	if !ok {
		return nil
	}
	n.Spec.Taints = nil
	if t.on {
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	}
	_, err := w.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	return err
}

// setKubelet sets the state of a node's kubelet.
type setKubelet struct{ node, how string }

// States of a kubelet.
const (
	works     = ""                   // reports the volumes of its pods as in use
	isDown    = "is down"            // reports nothing
	isHanging = "unmounts no volume" // keeps reporting volumes as in use
)

func (k setKubelet) String() string {
	if k.how == works {
		return "kubelet of " + k.node + " works"
	}
	return "kubelet of " + k.node + " " + k.how
}

func (k setKubelet) do(w *world) error {
	w.kubelets[k.node] = k.how
	return nil
}

// failNode stops a node and its kubelet and marks the node as failed, or recovers it.
type failNode struct {
	node     string
	recovers bool
}

func (f failNode) String() string {
	if f.recovers {
		return "node " + f.node + " recovers"
	}
	return "node " + f.node + " fails"
}

func (f failNode) do(w *world) error {
	if f.recovers {
		w.kubelets[f.node] = works
		return setReady{f.node, corev1.ConditionTrue}.do(w)
	}
	w.kubelets[f.node] = isDown
	return setReady{f.node, corev1.ConditionUnknown}.do(w)
}

// heartbeat is the period in which a kubelet writes an unchanged node status. It is shorter than
// the shortest pause after which worlds are compared.
//
// Upstream: pkg/kubelet nodeStatusReportFrequency (5 min) (v1.36).
const heartbeat = time.Minute

// runKubelets lets each kubelet write its node's status.
func (w *world) runKubelets() error {
	for _, n := range all[*corev1.Node](w, "nodes") {
		how := w.kubelets[n.Name]
		if how == isDown {
			continue
		}
		if now := w.now(); now.Sub(w.heartbeats[n.Name]) >= heartbeat {
			w.heartbeats[n.Name] = now
			if err := w.patchStatus(n.Name, "nodeInfo", map[string]any{"bootID": now.String()}); err != nil {
				return err
			}
		}
		use := w.wantedOn(n.Name)
		if how == isHanging {
			use = append(use, n.Status.VolumesInUse...)
		}
		slices.Sort(use)
		use = slices.Compact(use)
		if slices.Equal(use, n.Status.VolumesInUse) {
			continue
		}
		if err := w.patchStatus(n.Name, "volumesInUse", use); err != nil {
			return err
		}
	}
	return nil
}

// wantedOn returns the attachable volumes of the pods of a node.
func (w *world) wantedOn(node string) []corev1.UniqueVolumeName {
	var names []corev1.UniqueVolumeName
	if !w.attachRequired() {
		return nil
	}
	for _, p := range all[*corev1.Pod](w, "pods") {
		if p.Spec.NodeName != node || podclaims.Terminated(p) {
			continue
		}
		for i := range p.Spec.Volumes {
			name := p.Spec.Volumes[i].Name
			claim, ok := w.server.Get("persistentvolumeclaims", "default", name) // not copied: this runs very often
			if ok && claim.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound {
				names = append(names, diskOf(name).unique())
			}
		}
	}
	return names
}

// patchStatus replaces a field of a node's status. It does nothing if the node does not exist.
func (w *world) patchStatus(node, field string, value any) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{field: value}})
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// reportInUse reports one volume as in use, as the node's kubelet.
type reportInUse struct{ node, disk string }

func (i reportInUse) String() string {
	return fmt.Sprintf("node %s reports %s as in use", i.node, i.disk)
}

func (i reportInUse) do(w *world) error {
	return w.patchStatus(i.node, "volumesInUse", []corev1.UniqueVolumeName{diskOf(i.disk).unique()})
}
