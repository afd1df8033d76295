package deploydiff

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
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

// A change is a change of the Deployment, in words.
type change struct {
	text   string
	change func(*appsv1.Deployment)
}

func (c change) String() string { return c.text }

type createDeployment struct{ changes []change }

func (c createDeployment) String() string {
	return "create the Deployment: " + histories.Join(c.changes)
}

func (c createDeployment) Do(w *world) error {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"note": "first"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "image:0"}}},
			},
		},
	}
	for _, change := range c.changes {
		change.change(d)
	}
	_, err := w.Client.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{})
	return controllers.IgnoreMissing(err)
}

type editDeployment struct{ changes []change }

func (e editDeployment) String() string { return "edit the Deployment: " + histories.Join(e.changes) }

func (e editDeployment) Do(w *world) error {
	d, ok := histories.Stored[*appsv1.Deployment](w.Server, "deployments", "default", "web")
	if !ok {
		return nil
	}
	for _, change := range e.changes {
		change.change(d)
	}
	_, err := w.Client.AppsV1().Deployments("default").Update(ctx, d, metav1.UpdateOptions{})
	return controllers.IgnoreMissing(err)
}

// deleteDeployment deletes the Deployment. With orphan its sets lose it as their owner.
type deleteDeployment struct{ orphan bool }

func (d deleteDeployment) String() string {
	return fmt.Sprintf("delete the Deployment, orphan %v", d.orphan)
}

func (d deleteDeployment) Do(w *world) error {
	err := w.Down(func() error {
		if d.orphan {
			if err := (editSets{"loses its owner", func(set *appsv1.ReplicaSet) { set.OwnerReferences = nil }}).Do(w); err != nil {
				return err
			}
		}
		return w.Client.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{})
	})
	return controllers.IgnoreMissing(err)
}

// editSets changes all sets.
type editSets struct {
	text   string
	change func(*appsv1.ReplicaSet)
}

func (e editSets) String() string { return "each set " + e.text }

func (e editSets) Do(w *world) error {
	for _, obj := range w.Server.List("replicasets") {
		set := obj.DeepCopyObject().(*appsv1.ReplicaSet)
		e.change(set)
		if _, err := w.Client.AppsV1().ReplicaSets("default").Update(ctx, set, metav1.UpdateOptions{}); controllers.IgnoreMissing(err) != nil {
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
	return editDeployment{[]change{imageChange(b.image)}}.Do(w)
}

func imageChange(image string) change {
	return change{image, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image }}
}

var drawImage = rapid.Custom(func(t *rapid.T) string {
	return fmt.Sprintf("image:%d", rapid.IntRange(0, 3).Draw(t, "image"))
})

func drawStrategy(t *rapid.T) change {
	if histories.OneIn(t, 3, "recreate") {
		return change{"Recreate", func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}}
	}
	of := histories.OneOf("0", "1", "2", "25%", "50%")
	surge, unavailable := intstr.Parse(of.Draw(t, "surge")), intstr.Parse(of.Draw(t, "unavailable"))
	return change{fmt.Sprintf("surge %s, unavailable %s", surge.String(), unavailable.String()), func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
		}
	}}
}

var drawChange = rapid.Custom(func(t *rapid.T) change {
	switch histories.OneOf("replicas", "replicas", "image", "image", "image", "image", "pause", "resume", "strategy", "ready",
		"limit", "note", "deadline", "rollback").Draw(t, "kind") {
	case "replicas":
		n := rapid.Int32Range(0, 6).Draw(t, "replicas")
		return change{fmt.Sprintf("replicas %d", n), func(d *appsv1.Deployment) { d.Spec.Replicas = &n }}
	case "image":
		return imageChange(drawImage.Draw(t, "image"))
	case "pause":
		return change{"paused", func(d *appsv1.Deployment) { d.Spec.Paused = true }}
	case "resume":
		return change{"resumed", func(d *appsv1.Deployment) { d.Spec.Paused = false }}
	case "strategy":
		return drawStrategy(t)
	case "ready":
		n := histories.OneOf[int32](0, 0, 3, 12).Draw(t, "seconds")
		return change{fmt.Sprintf("minReadySeconds %d", n), func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = n }}
	case "limit":
		n := rapid.Int32Range(0, 2).Draw(t, "limit")
		return change{fmt.Sprintf("revisionHistoryLimit %d", n), func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = &n }}
	case "deadline":
		n := histories.OneOf[int32](33, 33, 600, 2147483647).Draw(t, "seconds")
		return change{fmt.Sprintf("progressDeadlineSeconds %d", n), func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = &n }}
	case "rollback":
		n := rapid.IntRange(0, 3).Draw(t, "revision")
		return change{fmt.Sprintf("roll back to %d", n), func(d *appsv1.Deployment) {
			d.Annotations[appsv1.DeprecatedRollbackTo] = fmt.Sprint(n)
		}}
	default:
		n := rapid.IntRange(0, 3).Draw(t, "note")
		return change{fmt.Sprintf("note %d", n), func(d *appsv1.Deployment) { d.Annotations["note"] = fmt.Sprint(n) }}
	}
})

var drawCreation = rapid.Custom(func(t *rapid.T) act {
	n := rapid.Int32Range(1, 5).Draw(t, "replicas")
	c := createDeployment{[]change{{fmt.Sprintf("replicas %d", n), func(d *appsv1.Deployment) { d.Spec.Replicas = &n }}}}
	c.changes = append(c.changes, drawStrategy(t))
	if histories.OneIn(t, 2, "deadline") {
		c.changes = append(c.changes, change{"progressDeadlineSeconds 33", func(d *appsv1.Deployment) {
			d.Spec.ProgressDeadlineSeconds = ptr.To[int32](33)
		}})
	}
	c.changes = append(c.changes, rapid.SliceOfN(drawChange, 0, 2).Draw(t, "changes")...)
	return c
})

var drawPodAct = rapid.Custom(func(t *rapid.T) act {
	n := rapid.IntRange(0, 5).Draw(t, "pod")
	switch histories.OneOf("delete", "delete", "end", "end", "unready", "unready", "selector").Draw(t, "kind") {
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
})

var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch histories.OneOf("edit", "edit", "edit", "edit", "edit", "pod", "pod", "image", "image", "image", "create", "delete", "sets").Draw(t, "act") {
	case "edit":
		return editDeployment{rapid.SliceOfN(drawChange, 1, 2).Draw(t, "changes")}
	case "pod":
		return drawPodAct.Draw(t, "kind")
	case "image":
		return breakImage{drawImage.Draw(t, "image"), !histories.OneIn(t, 3, "repaired"), histories.OneIn(t, 2, "rolled out")}
	case "create":
		return drawCreation.Draw(t, "kind")
	case "delete":
		return deleteDeployment{histories.OneIn(t, 2, "orphan")}
	default:
		return editSets{"loses its owner", func(set *appsv1.ReplicaSet) { set.OwnerReferences = nil }}
	}
})

var drawStep = rapid.Custom(func(t *rapid.T) step {
	s := step{Act: drawAct.Draw(t, "act")}
	if histories.OneIn(t, 10, "restart") {
		s.Act = restart{Meanwhile: s.Act}
	}
	if histories.OneIn(t, 8, "faulty") {
		s.Fault = histories.Fault{Kind: sim.FaultRefused, Request: histories.OneOf("create pods", "delete pods", "create replicasets",
			"update replicasets", "update/status replicasets", "update/status deployments", "delete replicasets").Draw(t, "request")}
	}
	return s
})

// drawHistory draws a history. The Deployment is created first.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	return append(history{{Act: drawCreation.Draw(t, "deployment")}}, histories.DrawSteps(t, drawStep, 5, 3)...)
})
