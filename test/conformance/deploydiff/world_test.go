package deploydiff

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

// A world is an API server, its users, kubelet and garbage collector: all but the controllers.
type world struct {
	*controllers.World

	broken map[string]bool // images whose pods do not become ready
}

var (
	podName  = regexp.MustCompile(`\b(web-[a-z0-9]+-|rc-)[a-z0-9]{5}\b`)
	resizing = regexp.MustCompile(` from [0-9]+ to [0-9]+$`)
)

// addEvent records an event without the names of pods and the sizes of sets.
func (w *world) addEvent(e *corev1.Event) {
	text := strings.TrimPrefix(e.Message, "(combined from similar events): ")
	text = resizing.ReplaceAllString(podName.ReplaceAllString(text, "$1*"), "")
	w.Events.Add(e, fmt.Sprintf("event %s %s %s", e.Type, e.Reason, text))
}

func newWorld(base *controllers.World) *world {
	w := &world{World: base, broken: map[string]bool{}}
	base.Server.OnCommit(func(c fake.Commit) {
		if e, isEvent := c.After.(*corev1.Event); isEvent {
			w.addEvent(e)
		} else if c.Type == watch.Added && c.Resource != "pods" {
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
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(describe(a), describe(b)))
	})
	return pods
}

// Tick lets the kubelet end and start pods, and the garbage collector delete what has no owner.
func (w *world) Tick() error {
	for _, pod := range w.pods() {
		var err error
		switch {
		case pod.DeletionTimestamp != nil:
			err = w.Client.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		case pod.Status.Phase == corev1.PodPending && !w.broken[pod.Spec.Containers[0].Image]:
			pod.Status.Phase = corev1.PodRunning
			setReady(pod, corev1.ConditionTrue, w.Now())
			_, err = w.Client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
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
	for _, resource := range []string{"deployments", "replicasets", "replicationcontrollers"} {
		for _, obj := range w.Server.List(resource) {
			alive[obj.GetUID()] = true
		}
	}
	orphaned := func(obj fake.Object) bool {
		ref := metav1.GetControllerOfNoCopy(obj)
		return ref != nil && !alive[ref.UID] && obj.GetDeletionTimestamp() == nil
	}
	var errs []error
	for _, obj := range w.Server.List("replicasets") {
		if orphaned(obj) {
			errs = append(errs, w.Client.AppsV1().ReplicaSets("default").Delete(ctx, obj.GetName(), metav1.DeleteOptions{}))
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
func describe(pod *corev1.Pod) string {
	text := fmt.Sprintf("pods %s %s app=%s", pod.Spec.Containers[0].Image, pod.Status.Phase, pod.Labels["app"])
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
		pods[describe(pod)]++
	}
	for text, n := range pods {
		lines = append(lines, fmt.Sprintf("%d %s", n, text))
	}
	for _, obj := range w.Server.List("replicasets") {
		set := obj.(*appsv1.ReplicaSet)
		s := set.Status
		conditions := ""
		for _, c := range s.Conditions {
			conditions += fmt.Sprintf(" %s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)
		}
		lines = append(lines, fmt.Sprintf(
			"replicasets %s %v %v%s: %d, ready after %d s, observed %v: %d pods, labelled %d, ready %d, available %d, ending %d%s",
			set.Name, set.Labels, set.Annotations, owners(set), *set.Spec.Replicas, set.Spec.MinReadySeconds, s.ObservedGeneration == set.Generation,
			s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, ptr.Deref(s.TerminatingReplicas, -1), conditions))
	}
	for _, obj := range w.Server.List("replicationcontrollers") {
		rc := obj.(*corev1.ReplicationController)
		s := rc.Status
		conditions := ""
		for _, c := range s.Conditions {
			conditions += fmt.Sprintf(" %s=%s %s %s", c.Type, c.Status, c.Reason, podName.ReplaceAllString(c.Message, "$1*"))
		}
		lines = append(lines, fmt.Sprintf(
			"replicationcontrollers %s %v %v: %d, observed %v: %d pods, labelled %d, ready %d, available %d%s",
			rc.Name, rc.Labels, rc.Annotations, *rc.Spec.Replicas, s.ObservedGeneration == rc.Generation,
			s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, conditions))
	}
	for _, obj := range w.Server.List("deployments") {
		d := obj.(*appsv1.Deployment)
		s := d.Status
		var conditions []string
		for _, c := range s.Conditions {
			conditions = append(conditions, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
		}
		slices.Sort(conditions)
		lines = append(lines, fmt.Sprintf(
			"deployments %s %v, observed %v: %d pods, updated %d, ready %d, available %d, unavailable %d, ending %d, collisions %d, %v",
			d.Name, d.Annotations, s.ObservedGeneration == d.Generation, s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas,
			s.UnavailableReplicas, ptr.Deref(s.TerminatingReplicas, -1), ptr.Deref(s.CollisionCount, -1), conditions))
	}
	return w.Events.State(lines)
}
