package testworld

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// StartKubelet starts a process "kubelet" that makes all pods ready, and ends those that are deleted. It
// does nothing for a pod that ignores returns true for.
func (w *On[H]) StartKubelet(ignores func(pod *corev1.Pod) bool) {
	process := w.Host.Process("kubelet")
	client := w.Server.Client(process).CoreV1()
	pods := w.Server.Informers(process).Core().V1().Pods()
	queue := sim.NewQueue[types.NamespacedName](process, sim.QueueConfig{Name: "pods"})
	eventhandler.Add(pods.Informer(), func(_, pod *corev1.Pod) {
		queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}, nil)
	process.GateWorkers(pods.Informer().HasSynced)
	queue.Work(func(ctx context.Context, key types.NamespacedName) error {
		pod, err := pods.Lister().Pods(key.Namespace).Get(key.Name)
		if err != nil || ignores(pod) {
			return nil //nolint:nilerr // a lister fails with NotFound only
		}
		switch {
		case pod.DeletionTimestamp != nil:
			err = client.Pods(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{
				GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
			})
		case pod.Status.Phase == corev1.PodPending:
			pod = pod.DeepCopy()
			MakeReady(pod, metav1.NewTime(process.Now()))
			_, err = client.Pods(key.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// MakeReady gives a pod the status of one that has been ready since a time.
func MakeReady(pod *corev1.Pod, since metav1.Time) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since,
	}}
}

// A FailingCaller fails the calls for which Fail returns an error, without effect.
type FailingCaller struct {
	sim.Caller

	Fail func(action trace.Action) error
}

// Call implements sim.Caller.
func (f FailingCaller) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return f.Caller.Call(action, func() trace.Outcome {
		if err := f.Fail(action); err != nil {
			return trace.Outcome{Err: err}
		}
		return effect()
	})
}
