package daemondiff

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	act     = controllers.Act[*world]
	step    = controllers.Step[*world]
	restart = controllers.Restart[*world]
)

// A change is a change of the DaemonSet, in words.
type change struct {
	text   string
	change func(*appsv1.DaemonSet)
}

func (c change) String() string { return c.text }

// createSet creates the DaemonSet. With placed, pods are compared with their nodes from now on.
type createSet struct {
	changes []change
	placed  bool
}

func (c createSet) String() string {
	return fmt.Sprintf("create the DaemonSet, placed %v: %s", c.placed, histories.Join(c.changes))
}

func (c createSet) Do(w *world) error {
	labels := map[string]string{"app": "web"}
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"note": "first"}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image:0"}}},
			},
		},
	}
	for _, change := range c.changes {
		change.change(d)
	}
	w.placed = c.placed
	_, err := w.Client.AppsV1().DaemonSets("default").Create(ctx, d, metav1.CreateOptions{})
	return controllers.IgnoreMissing(err)
}

type editSet struct{ changes []change }

func (e editSet) String() string { return "edit the DaemonSet: " + histories.Join(e.changes) }

func (e editSet) Do(w *world) error {
	d, ok := histories.Stored[*appsv1.DaemonSet](w.Server, "daemonsets", "default", "web")
	if !ok {
		return nil
	}
	for _, change := range e.changes {
		change.change(d)
	}
	_, err := w.Client.AppsV1().DaemonSets("default").Update(ctx, d, metav1.UpdateOptions{})
	return controllers.IgnoreMissing(err)
}

// deleteSet deletes the DaemonSet. With orphan its pods and revisions lose it as their owner.
type deleteSet struct{ orphan bool }

func (d deleteSet) String() string { return fmt.Sprintf("delete the DaemonSet, orphan %v", d.orphan) }

func (d deleteSet) Do(w *world) error {
	err := w.Down(func() error {
		if d.orphan {
			for _, pod := range w.pods() {
				pod.OwnerReferences = nil
				if _, err := w.Client.CoreV1().Pods("default").Update(ctx, pod, metav1.UpdateOptions{}); controllers.IgnoreMissing(err) != nil {
					return err
				}
			}
			if err := (orphanRevisions{}).Do(w); err != nil {
				return err
			}
		}
		return w.Client.AppsV1().DaemonSets("default").Delete(ctx, "web", metav1.DeleteOptions{})
	})
	return controllers.IgnoreMissing(err)
}

type orphanRevisions struct{}

func (orphanRevisions) String() string { return "each revision loses its owner" }

func (orphanRevisions) Do(w *world) error {
	for _, obj := range w.Server.List("controllerrevisions") {
		r := obj.DeepCopyObject().(*appsv1.ControllerRevision)
		r.OwnerReferences = nil
		if _, err := w.Client.AppsV1().ControllerRevisions("default").Update(ctx, r, metav1.UpdateOptions{}); controllers.IgnoreMissing(err) != nil {
			return err
		}
	}
	return nil
}

// editNodes changes nodes: the one of a number, or all for 0. A node that does not exist is created.
type editNodes struct {
	n      int
	text   string
	change func(*corev1.Node)
}

func (e editNodes) String() string { return fmt.Sprintf("node %d %s", e.n, e.text) }

func (e editNodes) Do(w *world) error {
	for i := 1; i <= 3; i++ {
		if e.n != 0 && e.n != i {
			continue
		}
		node, ok := histories.Stored[*corev1.Node](w.Server, "nodes", "", fmt.Sprintf("node-%d", i))
		if !ok {
			node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
			e.change(node)
			if _, err := w.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
				return err
			}
			continue
		}
		e.change(node)
		if _, err := w.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); controllers.IgnoreMissing(err) != nil {
			return err
		}
	}
	return nil
}

// editPod changes a pod, or its status. The pods are counted by age.
type editPod struct {
	n      int
	text   string
	status bool
	change func(*corev1.Pod, *world)
}

func (e editPod) String() string { return fmt.Sprintf("pod %d %s", e.n, e.text) }

func (e editPod) Do(w *world) error {
	pods := w.pods()
	if len(pods) == 0 {
		return nil
	}
	pod := pods[e.n%len(pods)]
	e.change(pod, w)
	var err error
	if e.status {
		_, err = w.Client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	} else {
		_, err = w.Client.CoreV1().Pods("default").Update(ctx, pod, metav1.UpdateOptions{})
	}
	return controllers.IgnoreMissing(err)
}

type deletePod struct{ n int }

func (d deletePod) String() string { return fmt.Sprintf("delete pod %d", d.n) }

func (d deletePod) Do(w *world) error {
	pods := w.pods()
	if len(pods) == 0 {
		return nil
	}
	return controllers.IgnoreMissing(w.Client.CoreV1().Pods("default").Delete(ctx, pods[d.n%len(pods)].Name, metav1.DeleteOptions{}))
}

// breakImage makes the kubelet start no pods of an image, or again some. The image may be rolled out.
type breakImage struct {
	image      string
	on, rolled bool
}

func (b breakImage) String() string {
	return fmt.Sprintf("%s is broken: %v; rolled out: %v", b.image, b.on, b.rolled)
}

func (b breakImage) Do(w *world) error {
	w.broken[b.image] = b.on
	if !b.rolled {
		return nil
	}
	return editSet{[]change{imageChange(b.image)}}.Do(w)
}

func imageChange(image string) change {
	return change{image, func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = image }}
}

var drawImage = rapid.Custom(func(t *rapid.T) string {
	return fmt.Sprintf("image:%d", rapid.IntRange(0, 3).Draw(t, "image"))
})

func drawStrategy(t *rapid.T) change {
	if histories.OneIn(t, 5, "on delete") {
		return change{"OnDelete", func(d *appsv1.DaemonSet) {
			d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
		}}
	}
	n := intstr.Parse(histories.OneOf("1", "2", "50%").Draw(t, "number"))
	zero, surge := intstr.FromInt32(0), histories.OneIn(t, 2, "surge")
	return change{fmt.Sprintf("%s, surge %v", n.String(), surge), func(d *appsv1.DaemonSet) {
		r := &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &n, MaxSurge: &zero}
		if surge {
			r = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &zero, MaxSurge: &n}
		}
		d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: r}
	}}
}

var drawChange = rapid.Custom(func(t *rapid.T) change {
	switch histories.OneOf("image", "image", "image", "image", "strategy", "ready", "limit", "note", "selector", "tolerate").Draw(t, "kind") {
	case "image":
		return imageChange(drawImage.Draw(t, "image"))
	case "strategy":
		return drawStrategy(t)
	case "ready":
		n := histories.OneOf[int32](0, 0, 3).Draw(t, "seconds")
		return change{fmt.Sprintf("minReadySeconds %d", n), func(d *appsv1.DaemonSet) { d.Spec.MinReadySeconds = n }}
	case "limit":
		n := rapid.Int32Range(0, 2).Draw(t, "limit")
		return change{fmt.Sprintf("revisionHistoryLimit %d", n), func(d *appsv1.DaemonSet) { d.Spec.RevisionHistoryLimit = &n }}
	case "selector":
		role := histories.OneOf("", "a").Draw(t, "role")
		return change{fmt.Sprintf("role %q", role), func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.NodeSelector = nil
			if role != "" {
				d.Spec.Template.Spec.NodeSelector = map[string]string{"role": role}
			}
		}}
	case "tolerate":
		return change{"tolerates", func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
		}}
	default:
		n := rapid.IntRange(0, 3).Draw(t, "note")
		return change{fmt.Sprintf("note %d", n), func(d *appsv1.DaemonSet) { d.Annotations["note"] = fmt.Sprint(n) }}
	}
})

func drawCreation(t *rapid.T, placed bool) act {
	n := rapid.Int32Range(0, 1).Draw(t, "limit")
	first := []change{drawStrategy(t), {fmt.Sprintf("revisionHistoryLimit %d", n), func(d *appsv1.DaemonSet) { d.Spec.RevisionHistoryLimit = &n }}}
	return createSet{append(first, rapid.SliceOfN(drawChange, 0, 2).Draw(t, "changes")...), placed}
}

// drawPodAct draws an act on a pod. Unless placed, the pod may stop a rollout.
func drawPodAct(t *rapid.T, placed bool) act {
	n := rapid.IntRange(0, 5).Draw(t, "pod")
	kinds := []string{"delete", "delete", "end", "selector"}
	if !placed {
		kinds = append(kinds, "unready", "unready")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "delete":
		return deletePod{n}
	case "end":
		phase := histories.OneOf(corev1.PodFailed, corev1.PodSucceeded).Draw(t, "phase")
		return editPod{n, "is " + string(phase), true, func(p *corev1.Pod, _ *world) { p.Status.Phase = phase }}
	case "unready":
		ready := histories.OneOf(corev1.ConditionFalse, corev1.ConditionTrue).Draw(t, "ready")
		return editPod{n, "ready: " + string(ready), true, func(p *corev1.Pod, w *world) { setReady(p, ready, w.Now()) }}
	default:
		value := histories.OneOf("other", "web").Draw(t, "app")
		return editPod{n, "label app=" + value, false, func(p *corev1.Pod, _ *world) { p.Labels["app"] = value }}
	}
}

func drawNodeAct(t *rapid.T, placed bool) act {
	n := 0
	if placed {
		n = rapid.IntRange(1, 3).Draw(t, "node")
	}
	switch histories.OneOf("taint", "taint", "untaint", "role").Draw(t, "kind") {
	case "taint":
		effect := histories.OneOf(corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule).Draw(t, "effect")
		key := histories.OneOf("k", "k", corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady).Draw(t, "key")
		return editNodes{n, fmt.Sprintf("is tainted: %s %s", key, effect), func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}}
		}}
	case "untaint":
		return editNodes{n, "is not tainted", func(node *corev1.Node) { node.Spec.Taints = nil }}
	default:
		role := histories.OneOf("a", "b").Draw(t, "role")
		return editNodes{n, "has role " + role, func(node *corev1.Node) { node.Labels = map[string]string{"role": role} }}
	}
}

func drawStep(placed bool) *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		kinds := []string{"edit", "edit", "edit", "edit", "pod", "pod", "node", "node", "node", "create", "delete", "revisions"}
		if !placed {
			kinds = append(kinds, "image", "image", "image")
		}
		var s step
		switch rapid.SampledFrom(kinds).Draw(t, "act") {
		case "edit":
			s.Act = editSet{rapid.SliceOfN(drawChange, 1, 2).Draw(t, "changes")}
		case "pod":
			s.Act = drawPodAct(t, placed)
		case "node":
			s.Act = drawNodeAct(t, placed)
		case "image":
			s.Act = breakImage{drawImage.Draw(t, "image"), !histories.OneIn(t, 3, "repaired"), histories.OneIn(t, 2, "rolled out")}
		case "create":
			s.Act = drawCreation(t, placed)
		case "delete":
			s.Act = deleteSet{histories.OneIn(t, 2, "orphan")}
		default:
			s.Act = orphanRevisions{}
		}
		if histories.OneIn(t, 10, "restart") {
			s.Act = restart{Meanwhile: s.Act}
		}
		if histories.OneIn(t, 8, "faulty") {
			s.Fault = histories.Fault{Kind: sim.FaultRefused, Request: histories.OneOf("create pods", "delete pods", "patch pods",
				"create controllerrevisions", "update controllerrevisions", "delete controllerrevisions", "update/status daemonsets").Draw(t, "request")}
		}
		return s
	})
}

// drawHistory draws a history. Nodes and the DaemonSet are created first.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	placed := rapid.Bool().Draw(t, "placed")
	node := 0
	if placed {
		node = 1
	}
	h := history{
		{Act: editNodes{node, "exists", func(node *corev1.Node) { node.Labels = map[string]string{"role": "a"} }}},
		{Act: drawCreation(t, placed)},
	}
	return append(h, histories.DrawSteps(t, drawStep(placed), 5, 3)...)
})
