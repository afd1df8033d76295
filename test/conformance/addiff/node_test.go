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

// makeNode is a node that is created, ready.
type makeNode struct {
	node      string
	unmanaged bool // its kubelet attaches volumes itself
}

func (m makeNode) String() string {
	if m.unmanaged {
		return "node " + m.node + " comes, unmanaged"
	}
	return "node " + m.node + " comes"
}

func (m makeNode) do(u *user) error {
	if _, ok := stored[*corev1.Node](u, "nodes", "", m.node); ok {
		return nil
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}
	if !m.unmanaged {
		n.Annotations = map[string]string{attachdetach.ManagedAnnotation: "true"}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err := u.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return err
}

// dropNode is a node that goes.
type dropNode struct{ node string }

func (d dropNode) String() string { return "node " + d.node + " goes" }

func (d dropNode) do(u *user) error {
	err := u.client.CoreV1().Nodes().Delete(ctx, d.node, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// manage marks a node as managed.
type manage struct{ node string }

func (m manage) String() string { return "node " + m.node + " becomes managed" }

func (m manage) do(u *user) error {
	n, ok := stored[*corev1.Node](u, "nodes", "", m.node)
	if !ok || n.Annotations[attachdetach.ManagedAnnotation] != "" {
		return nil
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, attachdetach.ManagedAnnotation, "true")
	_, err := u.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	return err
}

// ready is a node's condition.
type ready struct {
	node   string
	status corev1.ConditionStatus
}

func (r ready) String() string { return fmt.Sprintf("node %s ready: %s", r.node, r.status) }

func (r ready) do(u *user) error {
	return u.patchStatus(r.node, "conditions", []map[string]any{{"type": "Ready", "status": r.status}})
}

// taint is somebody vouching that a node is shut down, or no longer.
type taint struct {
	node string
	on   bool
}

func (t taint) String() string { return fmt.Sprintf("node %s out of service: %t", t.node, t.on) }

func (t taint) do(u *user) error {
	n, ok := stored[*corev1.Node](u, "nodes", "", t.node)
	if !ok {
		return nil
	}
	n.Spec.Taints = nil
	if t.on {
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	}
	_, err := u.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	return err
}

// kubelet is what a node's kubelet does from now on.
type kubelet struct{ node, how string }

// What a kubelet may do.
const (
	works     = ""                   // it reports the volumes of its pods as in use
	isDown    = "is down"            // it reports nothing
	isHanging = "unmounts no volume" // what it reported once stays in use
)

func (k kubelet) String() string {
	if k.how == works {
		return "kubelet of " + k.node + " works"
	}
	return "kubelet of " + k.node + " " + k.how
}

func (k kubelet) do(u *user) error {
	u.kubelets[k.node] = k.how
	return nil
}

// fail is a node that fails, with its kubelet, and is found to; or is back.
type fail struct {
	node string
	back bool
}

func (f fail) String() string {
	if f.back {
		return "node " + f.node + " is back"
	}
	return "node " + f.node + " fails"
}

func (f fail) do(u *user) error {
	if f.back {
		u.kubelets[f.node] = works
		return ready{f.node, corev1.ConditionTrue}.do(u)
	}
	u.kubelets[f.node] = isDown
	return ready{f.node, corev1.ConditionUnknown}.do(u)
}

// heartbeat is how often a kubelet writes its node's status though nothing has changed. It is more often than the shortest
// time after which worlds are compared.
//
// Upstream: pkg/kubelet nodeStatusReportFrequency (5 min) (v1.36).
const heartbeat = time.Minute

// report has each kubelet write its node's status.
func (u *user) report() error {
	for _, n := range all[*corev1.Node](u, "nodes") {
		how := u.kubelets[n.Name]
		if how == isDown {
			continue
		}
		if now := u.now(); now.Sub(u.beaten[n.Name]) >= heartbeat {
			u.beaten[n.Name] = now
			if err := u.patchStatus(n.Name, "nodeInfo", map[string]any{"bootID": now.String()}); err != nil {
				return err
			}
		}
		use := u.wantedOn(n.Name)
		if how == isHanging {
			use = append(use, n.Status.VolumesInUse...)
		}
		slices.Sort(use)
		use = slices.Compact(use)
		if slices.Equal(use, n.Status.VolumesInUse) {
			continue
		}
		if err := u.patchStatus(n.Name, "volumesInUse", use); err != nil {
			return err
		}
	}
	return nil
}

// wantedOn are the attachable volumes of the pods of a node.
func (u *user) wantedOn(node string) []corev1.UniqueVolumeName {
	var names []corev1.UniqueVolumeName
	if !u.attachRequired() {
		return nil
	}
	for _, p := range all[*corev1.Pod](u, "pods") {
		if p.Spec.NodeName != node || podclaims.Terminated(p) {
			continue
		}
		for i := range p.Spec.Volumes {
			name := p.Spec.Volumes[i].Name
			claim, ok := u.server.Get("persistentvolumeclaims", "default", name) // as it is: this is asked very often
			if ok && claim.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound {
				names = append(names, diskOf(name).unique())
			}
		}
	}
	return names
}

// patchStatus replaces a field of a node's status; of a node that is not there, nothing.
func (u *user) patchStatus(node, field string, value any) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{field: value}})
	if err != nil {
		return err
	}
	_, err = u.client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// inUse is a node that says which volume it uses.
type inUse struct{ node, disk string }

func (i inUse) String() string { return fmt.Sprintf("node %s says that it uses %s", i.node, i.disk) }

func (i inUse) do(u *user) error {
	return u.patchStatus(i.node, "volumesInUse", []corev1.UniqueVolumeName{diskOf(i.disk).unique()})
}
