package addiff

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// createPod creates a pod, bound to a node or to none.
type createPod struct {
	pod, node string
	disks     []string
}

func (r createPod) String() string {
	where := "on " + r.node
	if r.node == "" {
		where = "on no node"
	}
	return fmt.Sprintf("pod %s %s uses %s", r.pod, where, strings.Join(r.disks, ", "))
}

func (r createPod) do(w *world) error {
	if _, ok := stored[*corev1.Pod](w, "pods", "default", r.pod); ok {
		return nil
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: r.pod}}
	p.Spec.NodeName, p.Spec.Containers = r.node, []corev1.Container{{Name: "c", Image: "i"}}
	for _, d := range r.disks {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: d, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: d},
		}})
	}
	_, err := w.client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
	return err
}

// bindPod binds a pod to a node if it is bound to none.
type bindPod struct{ pod, node string }

func (s bindPod) String() string { return fmt.Sprintf("pod %s is bound to %s", s.pod, s.node) }

func (s bindPod) do(w *world) error {
	p, ok := stored[*corev1.Pod](w, "pods", "default", s.pod)
	if !ok || p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
		return nil
	}
	return w.client.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.pod},
		Target:     corev1.ObjectReference{Kind: "Node", Name: s.node},
	}, metav1.CreateOptions{})
}

// endPod ends a pod.
type endPod struct{ pod, how string }

func (e endPod) String() string { return fmt.Sprintf("pod %s %s", e.pod, e.how) }

// The ways in which a pod ends.
const (
	isDeleted     = "is deleted"
	succeeds      = "succeeds"
	fails         = "fails"
	isTerminating = "is being deleted, and runs" // until it is deleted
	isTerminated  = "is being deleted, and does not run"
)

func (e endPod) do(w *world) error {
	pods := w.client.CoreV1().Pods("default")
	p, ok := stored[*corev1.Pod](w, "pods", "default", e.pod)
	if !ok {
		return nil
	}
	var grace int64
	switch e.how {
	case isDeleted:
		return pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	case succeeds:
		p.Status.Phase = corev1.PodSucceeded
	case fails:
		p.Status.Phase = corev1.PodFailed
	default:
		var running corev1.ContainerState
		if e.how == isTerminating {
			running.Running = &corev1.ContainerStateRunning{}
		} else {
			running.Terminated = &corev1.ContainerStateTerminated{}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: running}}
	}
	if _, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if e.how != isTerminating && e.how != isTerminated {
		return nil
	}
	grace = 3600
	return pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
}
