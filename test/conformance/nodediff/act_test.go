package nodediff

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	act     = controllers.Act[*world]
	step    = controllers.Step[*world]
	restart = controllers.Restart[*world]
)

func nodeName(n int) string { return fmt.Sprintf("node-%d", n) }

// createNodes creates nodes that do not exist. Their kubelets report, unless they are silent.
type createNodes struct {
	nodes  []int
	zone   string
	taints []corev1.Taint
	silent bool
}

func (c createNodes) String() string {
	return fmt.Sprintf("create nodes %v in zone %s, taints %v, silent %v", c.nodes, c.zone, taintTexts(c.taints), c.silent)
}

func (c createNodes) Do(w *world) error {
	for _, n := range c.nodes {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(n), Labels: map[string]string{corev1.LabelTopologyZone: c.zone}},
			Spec:       corev1.NodeSpec{Taints: c.taints},
		}
		if err := w.create(node, c.silent); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) create(node *corev1.Node, silent bool) error {
	if _, exists := w.Server.Get("nodes", "", node.Name); exists {
		return nil
	}
	w.kubelets[node.Name] = &kubelet{silent: silent, report: map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeDiskPressure: corev1.ConditionFalse,
	}}
	_, err := w.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// deleteNodes deletes nodes. With again, they are created again after that time.
type deleteNodes struct {
	nodes []int
	again time.Duration
}

func (d deleteNodes) String() string {
	return fmt.Sprintf("delete nodes %v, create them again after %s", d.nodes, d.again)
}

func (d deleteNodes) Do(w *world) error {
	var deleted []*corev1.Node
	for _, n := range d.nodes {
		node, ok := histories.Stored[*corev1.Node](w.Server, "nodes", "", nodeName(n))
		if !ok {
			continue
		}
		deleted = append(deleted, node)
		if err := w.Client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	if d.again == 0 {
		return nil
	}
	if err := w.Pass(d.again); err != nil {
		return err
	}
	for _, node := range deleted {
		again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}, Spec: corev1.NodeSpec{Taints: node.Spec.Taints}}
		if err := w.create(again, w.kubelets[node.Name].silent); err != nil {
			return err
		}
	}
	return nil
}

// silence makes kubelets silent, or not any more.
type silence struct {
	nodes  []int
	silent bool
}

func (s silence) String() string { return fmt.Sprintf("kubelets %v are silent: %v", s.nodes, s.silent) }

func (s silence) Do(w *world) error {
	for _, n := range s.nodes {
		if k := w.kubelets[nodeName(n)]; k != nil {
			k.silent = s.silent
		}
	}
	return nil
}

// report makes kubelets report a condition.
type report struct {
	nodes  []int
	kind   corev1.NodeConditionType
	status corev1.ConditionStatus
}

func (r report) String() string {
	return fmt.Sprintf("kubelets %v report %s=%s", r.nodes, r.kind, r.status)
}

func (r report) Do(w *world) error {
	for _, n := range r.nodes {
		k := w.kubelets[nodeName(n)]
		node, ok := histories.Stored[*corev1.Node](w.Server, "nodes", "", nodeName(n))
		if !ok || k == nil || k.silent {
			continue
		}
		k.report[r.kind] = r.status
		if err := w.post(k, node, true); err != nil {
			return err
		}
	}
	return nil
}

// editNodes changes nodes.
type editNodes struct {
	nodes  []int
	text   string
	change func(*corev1.Node)
}

func (e editNodes) String() string { return fmt.Sprintf("nodes %v: %s", e.nodes, e.text) }

func (e editNodes) Do(w *world) error {
	for _, n := range e.nodes {
		node, ok := histories.Stored[*corev1.Node](w.Server, "nodes", "", nodeName(n))
		if !ok {
			continue
		}
		e.change(node)
		if _, err := w.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); controllers.IgnoreMissing(err) != nil {
			return err
		}
	}
	return nil
}

// setTaints replaces the taints of a node that have other keys than those of controllers.
func setTaints(taints []corev1.Taint) func(*corev1.Node) {
	return func(node *corev1.Node) {
		ours := func(t corev1.Taint) bool { return !slices.Contains(userKeys, t.Key) }
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return !ours(t) })
		node.Spec.Taints = append(node.Spec.Taints, taints...)
	}
}

func taintTexts(taints []corev1.Taint) []string {
	var texts []string
	for _, t := range taints {
		texts = append(texts, t.ToString())
	}
	return texts
}

// createPods creates pods that do not exist.
type createPods struct {
	names       []string
	node        int // 0: none
	tolerations []corev1.Toleration
	finalizer   bool
}

func (c createPods) String() string {
	text := fmt.Sprintf("create pods %v on node %d, finalizer %v, tolerations", c.names, c.node, c.finalizer)
	for _, t := range c.tolerations {
		text += " " + tolerationText(t)
	}
	return text
}

func tolerationText(t corev1.Toleration) string {
	return fmt.Sprintf("%q %s %q %s %d", t.Key, t.Operator, t.Value, t.Effect, ptr.Deref(t.TolerationSeconds, 999))
}

func (c createPods) Do(w *world) error {
	for _, name := range c.names {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main", Image: "image"}}, Tolerations: c.tolerations,
				TerminationGracePeriodSeconds: ptr.To[int64](30),
			},
		}
		if c.node != 0 {
			pod.Spec.NodeName = nodeName(c.node)
		}
		if c.finalizer {
			pod.Finalizers = []string{"example.com/kept"}
		}
		if _, err := w.Client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); controllers.IgnoreMissing(err) != nil {
			return err
		}
	}
	return nil
}

// editPod changes a pod, or its status.
type editPod struct {
	name   string
	text   string
	status bool
	change func(*corev1.Pod)
}

func (e editPod) String() string { return fmt.Sprintf("pod %s: %s", e.name, e.text) }

func (e editPod) Do(w *world) error {
	pod, ok := histories.Stored[*corev1.Pod](w.Server, "pods", "default", e.name)
	if !ok {
		return nil
	}
	e.change(pod)
	pods := w.Client.CoreV1().Pods("default")
	var err error
	if e.status {
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	} else {
		_, err = pods.Update(ctx, pod, metav1.UpdateOptions{})
	}
	return controllers.IgnoreMissing(err)
}

// bindPod binds a pod to a node.
type bindPod struct {
	name string
	node int
}

func (b bindPod) String() string { return fmt.Sprintf("bind pod %s to node %d", b.name, b.node) }

func (b bindPod) Do(w *world) error {
	return controllers.IgnoreMissing(w.Client.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: b.name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName(b.node)},
	}, metav1.CreateOptions{}))
}

// deletePod deletes a pod, with its grace period or at once.
type deletePod struct {
	name  string
	force bool
}

func (d deletePod) String() string { return fmt.Sprintf("delete pod %s, at once %v", d.name, d.force) }

func (d deletePod) Do(w *world) error {
	var options metav1.DeleteOptions
	if d.force {
		options.GracePeriodSeconds = ptr.To[int64](0)
	}
	return controllers.IgnoreMissing(w.Client.CoreV1().Pods("default").Delete(ctx, d.name, options))
}

type wait struct{}

func (wait) String() string { return "wait" }

func (wait) Do(*world) error { return nil }
