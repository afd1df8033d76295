package daemondiff

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

var ctx = context.Background()

// A world is an API server, its users, scheduler, kubelet and garbage collector: all but the controller.
type world struct {
	*controllers.World

	broken map[string]bool // images whose pods do not become ready
	placed bool            // pods are compared with their nodes
}

var (
	podName  = regexp.MustCompile(`web-[a-z0-9]{5}\b`)
	nodeName = regexp.MustCompile(`node-[0-9]`)
)

// addEvent records an event without the names of pods and nodes.
func (w *world) addEvent(e *corev1.Event) {
	text := strings.TrimPrefix(e.Message, "(combined from similar events): ")
	text = nodeName.ReplaceAllString(podName.ReplaceAllString(text, "web-*"), "node-*")
	w.Events.Add(e, fmt.Sprintf("event %s %s %s", e.Type, e.Reason, text))
}

func newWorld(base *controllers.World) *world {
	w := &world{World: base, broken: map[string]bool{}}
	base.Server.OnCommit(func(c fake.Commit) {
		if e, isEvent := c.After.(*corev1.Event); isEvent {
			w.addEvent(e)
		} else if c.Type == watch.Added && c.Resource != "pods" && c.Resource != "nodes" {
			w.Events.Name(c.After.GetUID(), "%s#%d", c.After.GetName())
		}
	})
	return w
}

// pods returns the pods. Those that are older are first.
func (w *world) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range w.Server.List("pods") {
		pods = append(pods, obj.DeepCopyObject().(*corev1.Pod))
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(w.describe(a), w.describe(b)))
	})
	return pods
}

// target returns the node of a pod, or the one for which it was created.
func target(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil {
		return pod.Spec.NodeName
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

// Tick lets the kubelet end and start pods, the scheduler bind them, and the garbage collector delete what
// has no owner.
func (w *world) Tick() error {
	pods := w.Client.CoreV1().Pods("default")
	for _, pod := range w.pods() {
		var err error
		switch {
		case pod.DeletionTimestamp != nil:
			err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		case pod.Spec.NodeName == "":
			err = pods.Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: target(pod)},
			}, metav1.CreateOptions{})
		case pod.Status.Phase == corev1.PodPending && !w.broken[pod.Spec.Containers[0].Image]:
			pod.Status.Phase = corev1.PodRunning
			setReady(pod, corev1.ConditionTrue, w.Now())
			_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
		if err != nil {
			return fmt.Errorf("kubelet: %w", err)
		}
	}
	return w.collect()
}

func setReady(pod *corev1.Pod, ready corev1.ConditionStatus, now time.Time) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now)}}
}

func (w *world) collect() error {
	alive := map[types.UID]bool{}
	for _, obj := range w.Server.List("daemonsets") {
		alive[obj.GetUID()] = true
	}
	orphaned := func(obj fake.Object) bool {
		ref := metav1.GetControllerOfNoCopy(obj)
		return ref != nil && !alive[ref.UID] && obj.GetDeletionTimestamp() == nil
	}
	var errs []error
	for _, obj := range w.Server.List("controllerrevisions") {
		if orphaned(obj) {
			errs = append(errs, w.Client.AppsV1().ControllerRevisions("default").Delete(ctx, obj.GetName(), metav1.DeleteOptions{}))
		}
	}
	for _, obj := range w.Server.List("pods") {
		if orphaned(obj) {
			errs = append(errs, w.Client.CoreV1().Pods("default").Delete(ctx, obj.GetName(), metav1.DeleteOptions{}))
		}
	}
	for _, err := range errs {
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("garbage collector: %w", err)
		}
	}
	return nil
}

// describe describes a pod without its name.
func (w *world) describe(pod *corev1.Pod) string {
	text := fmt.Sprintf("pods %s %s %v", pod.Spec.Containers[0].Image, pod.Status.Phase, pod.Labels)
	if w.placed {
		text += " on " + target(pod)
	}
	for _, c := range pod.Status.Conditions {
		text += fmt.Sprintf(" %s=%s", c.Type, c.Status)
	}
	if pod.DeletionTimestamp != nil {
		text += " ending"
	}
	return text + owners(pod)
}

func owners(obj metav1.Object) string {
	text := ""
	for _, ref := range obj.GetOwnerReferences() {
		text += fmt.Sprintf(" of %s %s %s %v", ref.Kind, ref.Name, ref.UID, ptr.Deref(ref.Controller, false))
	}
	return text
}

// State describes the world in words that do not depend on it.
func (w *world) State() histories.State {
	var lines []string
	pods := map[string]int{}
	for _, pod := range w.pods() {
		pods[w.describe(pod)]++
	}
	for text, n := range pods {
		lines = append(lines, fmt.Sprintf("%d %s", n, text))
	}
	for _, obj := range w.Server.List("controllerrevisions") {
		r := obj.(*appsv1.ControllerRevision)
		lines = append(lines, fmt.Sprintf("controllerrevisions %s %d %v %v%s", r.Name, r.Revision, r.Labels, r.Annotations, owners(r)))
	}
	for _, obj := range w.Server.List("daemonsets") {
		d := obj.(*appsv1.DaemonSet)
		s := d.Status
		lines = append(lines, fmt.Sprintf(
			"daemonsets %s %v, observed %v: desired %d, current %d, misscheduled %d, ready %d, updated %d, available %d, unavailable %d, collisions %d",
			d.Name, d.Annotations, s.ObservedGeneration == d.Generation, s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled,
			s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable, s.NumberUnavailable, ptr.Deref(s.CollisionCount, -1)))
	}
	return w.Events.State(lines)
}
