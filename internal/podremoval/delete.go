package podremoval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
)

// Options say how a pod is removed.
type Options struct {
	Now   metav1.Time     // of the condition
	Force bool            // the pod is removed at once; its kubelet is not waited for
	Phase corev1.PodPhase // the phase of a pod that has not finished; "": it is not changed
	// Reason and Message are those of the condition DisruptionTarget; "": the pod gets none.
	Reason, Message string
}

// Delete marks a pod and deletes it. A pod that does not exist any more is no error, even if another
// one has its name: the caches will show it. pod is not modified.
//
// Differs: upstream deletes by name. After its caches, or its own requests, were late, it deletes
// another pod of that name.
func Delete(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, o Options) error {
	err := DeleteFound(ctx, client, pod, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// DeleteFound is Delete for a pod that must exist: NotFound says that it does not.
func DeleteFound(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, o Options) error {
	err := remove(ctx, client.CoreV1().Pods(pod.Namespace), pod, o)
	if !apierrors.IsConflict(err) {
		return err
	}
	// Another pod may have the name. But a patch may also conflict with other writes.
	there, errGet := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(errGet):
		return errGet
	case errGet == nil && there.UID != pod.UID:
		return apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	default:
		return err
	}
}

// remove marks a pod and deletes it. It conflicts if another pod has the name.
func remove(ctx context.Context, pods corev1client.PodInterface, pod *corev1.Pod, o Options) error {
	patch, err := statusPatch(pod, o)
	if err != nil {
		return err
	}
	if patch != nil {
		_, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return err
		}
	}
	opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if o.Force {
		opts.GracePeriodSeconds = ptr.To(int64(0))
	}
	return pods.Delete(ctx, pod.Name, opts)
}

// statusPatch returns the patch that marks a pod, or nil if it is marked.
func statusPatch(pod *corev1.Pod, o Options) ([]byte, error) {
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	status := map[string]any{}
	if o.Phase != "" && !finished {
		status["phase"] = o.Phase
	}
	if c := condition(pod, o); c != nil {
		status["conditions"] = []corev1.PodCondition{*c}
	}
	if len(status) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return nil, fmt.Errorf("patch of pod status: %w", err)
	}
	return patch, nil
}

// condition returns the condition to set, or nil if there is none or the pod has it. A change of its
// text is no transition.
func condition(pod *corev1.Pod, o Options) *corev1.PodCondition {
	if o.Reason == "" {
		return nil
	}
	c := &corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation, LastTransitionTime: o.Now,
		Reason: o.Reason, Message: o.Message,
	}
	i := slices.IndexFunc(pod.Status.Conditions, func(is corev1.PodCondition) bool { return is.Type == c.Type })
	if i < 0 {
		return c
	}
	switch is := pod.Status.Conditions[i]; {
	case is.Status != c.Status:
		return c
	case is.Reason == c.Reason && is.Message == c.Message:
		return nil
	default:
		c.LastTransitionTime = is.LastTransitionTime
		return c
	}
}
