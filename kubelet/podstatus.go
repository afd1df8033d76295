package kubelet

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reportRunning says that all containers of a pod run.
func (k *Kubelet) reportRunning(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.NewTime(k.cfg.Component.Now())
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now}
	for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	for _, c := range pod.Spec.Containers {
		started := true
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &started,
			ContainerID: k.containerID(pod, c.Name), RestartCount: k.restarts(pod, c.Name),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return k.reportPod(ctx, pod, status)
}

// reportPod writes a pod's status, unless the pod is gone.
func (k *Kubelet) reportPod(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("patch of pod status: %w", err)
	}
	_, err = k.cfg.Client.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil // that pod is gone
	}
	return err // a conflict may be that another pod has the name: then the cache will tell
}
