package setdiff

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// A world is an API server, its users, kubelet and garbage collector: all but the controller.
type world struct {
	*controllers.World

	deaf map[string]bool // pods that the kubelet does nothing for

	mu     sync.Mutex
	counts map[string]int // guarded by mu: how often an object was created
	ended  bool           // guarded by mu: a pod that no set controlled has gone
	lost   bool           // guarded by mu: a revision was deleted that the set had
}

// addEvent records an event, unless it reports a conflict: ours does not. Upstream's recorder counts
// similar events in one, and its errors about claims are in map order.
func (w *world) addEvent(e *corev1.Event) {
	text := strings.TrimPrefix(e.Message, "(combined from similar events): ")
	if strings.Contains(text, "the object has been modified") {
		return
	}
	if what, list, ok := strings.Cut(text, ": ["); ok {
		parts := strings.Split(strings.TrimSuffix(list, "]"), ", ")
		slices.Sort(parts)
		text = what + ": " + strings.Join(parts, ", ")
	}
	w.Events.Add(e, fmt.Sprintf("event %s %s %s", e.Type, e.Reason, text))
}

func newWorld(base *controllers.World) *world {
	w := &world{
		World: base, deaf: map[string]bool{}, counts: map[string]int{},
	}
	base.Server.OnCommit(func(c fake.Commit) {
		w.mu.Lock()
		defer w.mu.Unlock()
		e, isEvent := c.After.(*corev1.Event)
		switch {
		case isEvent:
			w.addEvent(e)
		case c.Type == watch.Added:
			w.Events.Name(c.After.GetUID(), "%s#%d", c.After.GetName())
			w.counts[c.Resource+"/"+c.After.GetName()]++
		case c.Type == watch.Deleted && c.Resource == "pods" && metav1.GetControllerOfNoCopy(c.After) == nil:
			w.ended = true
		case c.Type == watch.Deleted && c.Resource == "controllerrevisions":
			if obj, ok := base.Server.Get("statefulsets", "default", "web"); ok {
				s := obj.(*appsv1.StatefulSet).Status
				w.lost = w.lost || c.After.GetName() == s.CurrentRevision || c.After.GetName() == s.UpdateRevision
			}
		}
	})
	return w
}

// happened reports whether a pod exists that no set controls, or has gone, and whether a revision was
// deleted that the set had.
func (w *world) happened() (stranger, revisionLost bool) {
	exists := slices.ContainsFunc(w.Server.List("pods"), func(obj fake.Object) bool {
		return metav1.GetControllerOfNoCopy(obj) == nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended || exists, w.lost
}

// Tick lets the kubelet end and start pods, and the garbage collector delete what has no owner.
func (w *world) Tick() error {
	for _, obj := range w.Server.List("pods") {
		pod := obj.DeepCopyObject().(*corev1.Pod)
		var err error
		switch {
		case w.deaf[pod.Name]:
		case pod.DeletionTimestamp != nil:
			err = w.Client.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		case pod.Status.Phase == corev1.PodPending:
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
	alive, used := map[types.UID]bool{}, map[string]bool{}
	for _, resource := range []string{"statefulsets", "pods"} {
		for _, obj := range w.Server.List(resource) {
			alive[obj.GetUID()] = true
			if pod, is := obj.(*corev1.Pod); is {
				for _, v := range pod.Spec.Volumes {
					if v.PersistentVolumeClaim != nil {
						used[v.PersistentVolumeClaim.ClaimName] = true
					}
				}
			}
		}
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
	claims := w.Client.CoreV1().PersistentVolumeClaims("default")
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		gone := obj.GetDeletionTimestamp() != nil
		if orphaned(obj) {
			gone = true
			errs = append(errs, claims.Delete(ctx, obj.GetName(), metav1.DeleteOptions{}))
		}
		if gone && !used[obj.GetName()] {
			_, err := claims.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			errs = append(errs, err)
		}
	}
	for _, err := range errs {
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("garbage collector: %w", err)
		}
	}
	return nil
}

// State describes the world in words that do not depend on it.
func (w *world) State() histories.State {
	var lines []string
	add := func(resource string, obj fake.Object, format string, args ...any) {
		w.mu.Lock()
		n := w.counts[resource+"/"+obj.GetName()]
		w.mu.Unlock()
		text := fmt.Sprintf("%s %s#%d", resource, obj.GetName(), n)
		for _, ref := range obj.GetOwnerReferences() {
			text += fmt.Sprintf(" of %s %s %v", ref.Kind, ref.UID, ptr.Deref(ref.Controller, false))
		}
		if obj.GetDeletionTimestamp() != nil {
			text += " ending"
		}
		lines = append(lines, text+" "+fmt.Sprintf(format, args...))
	}
	for _, obj := range w.Server.List("pods") {
		pod := obj.(*corev1.Pod)
		labels := make([]string, 0, len(pod.Labels))
		for k, v := range pod.Labels {
			labels = append(labels, k+"="+v)
		}
		slices.Sort(labels)
		add("pods", pod, "%s %s %s %s %s", pod.Status.Phase, pod.Spec.Containers[0].Image, strings.Join(labels, ","), pod.Spec.Hostname,
			pod.Spec.Subdomain)
	}
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		add("persistentvolumeclaims", obj, "%v", obj.GetLabels())
	}
	for _, obj := range w.Server.List("controllerrevisions") {
		r := obj.(*appsv1.ControllerRevision)
		add("controllerrevisions", r, "%d %v %v %s", r.Revision, r.Labels, r.Annotations, r.Data.Raw)
	}
	for _, obj := range w.Server.List("statefulsets") {
		s := obj.(*appsv1.StatefulSet).Status
		add("statefulsets", obj, "observed %d: %d pods, ready %d, available %d, current %d %s, updated %d %s, collisions %d",
			s.ObservedGeneration, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.CurrentRevision, s.UpdatedReplicas,
			s.UpdateRevision, ptr.Deref(s.CollisionCount, -1))
	}
	return w.Events.State(lines)
}
