package jobdiff

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

var ctx = context.Background()

// A world is an API server, its users, kubelet and garbage collector: all but the controller.
type world struct {
	*controllers.World
}

var podName = regexp.MustCompile(`pi-([0-9]-)?[a-z0-9]{5}\b`)

func newWorld(base *controllers.World) *world {
	w := &world{World: base}
	base.Server.OnCommit(func(c fake.Commit) {
		if e, isEvent := c.After.(*corev1.Event); isEvent {
			text := strings.TrimPrefix(e.Message, "(combined from similar events): ")
			w.Events.Add(e, fmt.Sprintf("event %s %s %s", e.Type, e.Reason, podName.ReplaceAllString(text, "*")))
		}
	})
	return w
}

// pods returns the pods, the older ones first.
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

// end gives a pod the status of one whose container has ended.
func (w *world) end(pod *corev1.Pod, code int32) error {
	now := metav1.NewTime(w.Now())
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: now}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: now},
	}}}
	_, err := w.Client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// Tick lets the kubelet end and start pods, and the garbage collector delete those without a job.
func (w *world) Tick() error {
	for _, pod := range w.pods() {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		_, exists := w.Server.Get("jobs", "default", "pi")
		var err error
		switch {
		case pod.DeletionTimestamp != nil && ended:
			err = w.Client.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		case pod.DeletionTimestamp != nil:
			err = w.end(pod, 143)
		case !exists:
			err = w.Client.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{})
		case pod.Status.Phase == corev1.PodPending:
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.Now())}}
			_, err = w.Client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("kubelet: %w", err)
		}
	}
	return nil
}

// describe describes a pod without its name.
func describe(pod *corev1.Pod) string {
	text := fmt.Sprintf("pods %s %v", pod.Status.Phase, pod.Finalizers)
	for _, of := range []string{batchv1.JobCompletionIndexAnnotation, batchv1.JobIndexFailureCountAnnotation, batchv1.JobIndexIgnoredFailureCountAnnotation} {
		text += " " + pod.Annotations[of]
	}
	for _, c := range pod.Status.ContainerStatuses {
		text += fmt.Sprintf(" code %d", c.State.Terminated.ExitCode)
	}
	if pod.DeletionTimestamp != nil {
		text += " ending"
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
	for _, obj := range w.Server.List("jobs") {
		s := obj.(*batchv1.Job).Status
		uncounted := ptr.Deref(s.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
		text := fmt.Sprintf("job: active %d, ready %d, terminating %d, succeeded %d %q, failed %d %q, uncounted %d %d, started %v, completed %v",
			s.Active, ptr.Deref(s.Ready, -1), ptr.Deref(s.Terminating, -1), s.Succeeded, s.CompletedIndexes, s.Failed, ptr.Deref(s.FailedIndexes, "nil"),
			len(uncounted.Succeeded), len(uncounted.Failed), s.StartTime != nil, s.CompletionTime != nil)
		for _, c := range s.Conditions {
			text += fmt.Sprintf(" %s=%s %s %s", c.Type, c.Status, c.Reason, podName.ReplaceAllString(c.Message, "*"))
		}
		lines = append(lines, text)
	}
	return w.Events.State(lines)
}
