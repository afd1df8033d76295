package setdiff

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// A change is a change of the set's spec, in words.
type change struct {
	text   string
	change func(*appsv1.StatefulSetSpec)
}

func (c change) String() string { return c.text }

type createSet struct{ changes []change }

func (c createSet) String() string { return "create the set: " + histories.Join(c.changes) }

func (c createSet) Do(w *world) error {
	labels := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"kubernetes.io/change-cause": "first"}},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: "service", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "image:0"}}},
			},
		},
	}
	for _, name := range []string{"data", "log"} {
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kind": name}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		})
	}
	for _, change := range c.changes {
		change.change(&set.Spec)
	}
	_, err := w.Client.AppsV1().StatefulSets("default").Create(ctx, set, metav1.CreateOptions{})
	return controllers.IgnoreMissing(err)
}

type editSet struct{ changes []change }

func (e editSet) String() string { return "edit the set: " + histories.Join(e.changes) }

func (e editSet) Do(w *world) error {
	set, ok := histories.Stored[*appsv1.StatefulSet](w.Server, "statefulsets", "default", "web")
	if !ok {
		return nil
	}
	for _, change := range e.changes {
		change.change(&set.Spec)
	}
	_, err := w.Client.AppsV1().StatefulSets("default").Update(ctx, set, metav1.UpdateOptions{})
	return controllers.IgnoreMissing(err)
}

// deleteSet deletes the set. With orphan its pods and revisions lose it as their owner.
type deleteSet struct{ orphan bool }

func (d deleteSet) String() string { return fmt.Sprintf("delete the set, orphan %v", d.orphan) }

func (d deleteSet) Do(w *world) error {
	if d.orphan {
		for _, obj := range w.Server.List("pods") {
			if err := (loseOwner{obj.GetName()}).Do(w); err != nil {
				return err
			}
		}
		for _, obj := range w.Server.List("controllerrevisions") {
			r := obj.DeepCopyObject().(*appsv1.ControllerRevision)
			r.OwnerReferences = nil
			if _, err := w.Client.AppsV1().ControllerRevisions("default").Update(ctx, r, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
	}
	return controllers.IgnoreMissing(w.Client.AppsV1().StatefulSets("default").Delete(ctx, "web", metav1.DeleteOptions{}))
}

// editPod changes a pod, or its status.
type editPod struct {
	pod, text string
	status    bool
	change    func(*corev1.Pod, *world)
}

func (e editPod) String() string { return fmt.Sprintf("pod %s %s", e.pod, e.text) }

func (e editPod) Do(w *world) error {
	pod, ok := histories.Stored[*corev1.Pod](w.Server, "pods", "default", e.pod)
	if !ok {
		return nil
	}
	e.change(pod, w)
	var err error
	if e.status {
		_, err = w.Client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	} else {
		_, err = w.Client.CoreV1().Pods("default").Update(ctx, pod, metav1.UpdateOptions{})
	}
	return controllers.IgnoreMissing(err)
}

type loseOwner struct{ pod string }

func (l loseOwner) String() string { return fmt.Sprintf("pod %s loses its owner", l.pod) }

func (l loseOwner) Do(w *world) error {
	return editPod{pod: l.pod, change: func(pod *corev1.Pod, _ *world) { pod.OwnerReferences = nil }}.Do(w)
}

type deletePod struct{ pod string }

func (d deletePod) String() string { return "delete pod " + d.pod }

func (d deletePod) Do(w *world) error {
	return controllers.IgnoreMissing(w.Client.CoreV1().Pods("default").Delete(ctx, d.pod, metav1.DeleteOptions{}))
}

type deleteClaim struct{ claim string }

func (d deleteClaim) String() string { return "delete claim " + d.claim }

func (d deleteClaim) Do(w *world) error {
	return controllers.IgnoreMissing(w.Client.CoreV1().PersistentVolumeClaims("default").Delete(ctx, d.claim, metav1.DeleteOptions{}))
}

// ignorePod makes the kubelet do nothing for a pod, or again something.
type ignorePod struct {
	pod string
	on  bool
}

func (i ignorePod) String() string { return fmt.Sprintf("the kubelet ignores pod %s: %v", i.pod, i.on) }

func (i ignorePod) Do(w *world) error {
	w.deaf[i.pod] = i.on
	return nil
}

var (
	drawPod   = histories.OneOf("web-0", "web-0", "web-1", "web-1", "web-2", "web-3")
	drawClaim = histories.OneOf("data-web-0", "data-web-1", "log-web-1", "data-web-2", "log-web-3")
)

var drawChange = rapid.Custom(func(t *rapid.T) change {
	switch histories.OneOf("replicas", "replicas", "replicas", "image", "image", "image", "partition", "policy", "strategy", "ready", "start", "limit").
		Draw(t, "kind") {
	case "replicas":
		n := rapid.Int32Range(0, 4).Draw(t, "replicas")
		return change{fmt.Sprintf("replicas %d", n), func(s *appsv1.StatefulSetSpec) { s.Replicas = &n }}
	case "image":
		n := rapid.IntRange(0, 3).Draw(t, "image")
		return change{fmt.Sprintf("image %d", n), func(s *appsv1.StatefulSetSpec) {
			s.Template.Spec.Containers[0].Image = fmt.Sprintf("image:%d", n)
		}}
	case "partition":
		n := rapid.Int32Range(0, 3).Draw(t, "partition")
		return change{fmt.Sprintf("partition %d", n), func(s *appsv1.StatefulSetSpec) {
			s.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n},
			}
		}}
	case "policy":
		of := histories.OneOf(appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
		p := appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: of.Draw(t, "deleted"), WhenScaled: of.Draw(t, "scaled")}
		return change{fmt.Sprintf("policy %+v", p), func(s *appsv1.StatefulSetSpec) { s.PersistentVolumeClaimRetentionPolicy = &p }}
	case "strategy":
		what := histories.OneOf(appsv1.OnDeleteStatefulSetStrategyType, appsv1.RollingUpdateStatefulSetStrategyType).Draw(t, "strategy")
		return change{string(what), func(s *appsv1.StatefulSetSpec) {
			s.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: what}
		}}
	case "ready":
		n := histories.OneOf[int32](0, 0, 3, 12).Draw(t, "seconds")
		return change{fmt.Sprintf("minReadySeconds %d", n), func(s *appsv1.StatefulSetSpec) { s.MinReadySeconds = n }}
	case "start":
		n := rapid.Int32Range(0, 2).Draw(t, "start")
		return change{fmt.Sprintf("start %d", n), func(s *appsv1.StatefulSetSpec) { s.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }}
	default:
		n := rapid.Int32Range(0, 2).Draw(t, "limit")
		return change{fmt.Sprintf("revisionHistoryLimit %d", n), func(s *appsv1.StatefulSetSpec) { s.RevisionHistoryLimit = &n }}
	}
})

var drawCreation = rapid.Custom(func(t *rapid.T) act {
	c := createSet{rapid.SliceOfN(drawChange, 0, 3).Draw(t, "changes")}
	if histories.OneIn(t, 2, "parallel") {
		c.changes = append(c.changes, change{"parallel", func(s *appsv1.StatefulSetSpec) { s.PodManagementPolicy = appsv1.ParallelPodManagement }})
	}
	return c
})

var drawPodAct = rapid.Custom(func(t *rapid.T) act {
	pod := drawPod.Draw(t, "pod")
	switch histories.OneOf("delete", "delete", "end", "unready", "label", "selector", "owner", "ignore", "ignore", "notice").Draw(t, "kind") {
	case "delete":
		return deletePod{pod}
	case "end":
		phase := histories.OneOf(corev1.PodFailed, corev1.PodSucceeded).Draw(t, "phase")
		return editPod{pod, "is " + string(phase), true, func(p *corev1.Pod, _ *world) { p.Status.Phase = phase }}
	case "unready":
		ready := histories.OneOf(corev1.ConditionFalse, corev1.ConditionTrue).Draw(t, "ready")
		return editPod{pod, "ready: " + string(ready), true, func(p *corev1.Pod, w *world) { setReady(p, ready, w.Now()) }}
	case "label":
		return editPod{pod, "loses its name label", false, func(p *corev1.Pod, _ *world) { delete(p.Labels, appsv1.StatefulSetPodNameLabel) }}
	case "selector":
		value := histories.OneOf("other", "web").Draw(t, "app")
		return editPod{pod, "label app=" + value, false, func(p *corev1.Pod, _ *world) { p.Labels["app"] = value }}
	case "owner":
		return loseOwner{pod}
	case "ignore":
		return ignorePod{pod, true}
	default:
		return ignorePod{pod, false}
	}
})

var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch histories.OneOf("edit", "edit", "edit", "edit", "pod", "pod", "pod", "create", "create", "delete", "claim").Draw(t, "act") {
	case "edit":
		return editSet{rapid.SliceOfN(drawChange, 1, 2).Draw(t, "changes")}
	case "pod":
		return drawPodAct.Draw(t, "kind")
	case "create":
		return drawCreation.Draw(t, "kind")
	case "delete":
		return deleteSet{histories.OneIn(t, 2, "orphan")}
	default:
		return deleteClaim{drawClaim.Draw(t, "claim")}
	}
})

var drawStep = rapid.Custom(func(t *rapid.T) step {
	s := step{Act: drawAct.Draw(t, "act")}
	if histories.OneIn(t, 10, "restart") {
		s.Act = restart{Meanwhile: s.Act}
	}
	if histories.OneIn(t, 8, "faulty") {
		s.Fault = histories.Fault{Kind: sim.FaultRefused, Request: histories.OneOf("create pods", "delete pods", "create persistentvolumeclaims",
			"update persistentvolumeclaims", "update/status statefulsets", "create controllerrevisions").Draw(t, "request")}
	}
	return s
})

// drawHistory draws a history. The set is created first.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	return append(history{{Act: drawCreation.Draw(t, "set")}}, histories.DrawSteps(t, drawStep, 5, 3)...)
})
