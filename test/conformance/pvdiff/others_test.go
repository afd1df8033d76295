package pvdiff

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const annDefaultClass = "storageclass.kubernetes.io/is-default-class"

// createClass creates a class.
type createClass struct {
	key         key
	provisioner string
	delayed     bool
	isDefault   bool
	retain      bool
	mounted     bool // with mount options
}

func (m createClass) String() string {
	text := fmt.Sprintf("class %s of %s", m.key, m.provisioner)
	if m.delayed {
		text += " WaitForFirstConsumer"
	}
	if m.isDefault {
		text += " default"
	}
	if m.retain {
		text += " Retain"
	}
	if m.mounted {
		text += " with mount options"
	}
	return text
}

func (m createClass) do(w *world) error {
	_, name := m.key.split()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: m.provisioner}
	if m.delayed {
		class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
	}
	if m.retain {
		class.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain)
	}
	if m.mounted {
		class.MountOptions = []string{"ro"}
	}
	if m.isDefault {
		class.Annotations = map[string]string{annDefaultClass: "true"}
	}
	_, err := w.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	return err
}

// deleteClass deletes a class.
type deleteClass struct{ key key }

func (d deleteClass) String() string { return "delete class " + string(d.key) }

func (d deleteClass) do(w *world) error {
	class, ok := w.class(d.key)
	if !ok {
		return nil
	}
	return w.client.StorageV1().StorageClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})
}

// setDefault makes a class the default class, or no longer.
type setDefault struct {
	key       key
	isDefault bool
}

func (s setDefault) String() string { return fmt.Sprintf("class %s default: %t", s.key, s.isDefault) }

func (s setDefault) do(w *world) error {
	class, ok := w.class(s.key)
	if !ok {
		return nil
	}
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, annDefaultClass, fmt.Sprint(s.isDefault))
	_, err := w.client.StorageV1().StorageClasses().Update(ctx, class, metav1.UpdateOptions{})
	return err
}

// createPod creates a pod that uses a claim.
type createPod struct {
	key       key
	claim     key // in the pod's namespace
	scheduled bool
}

func (m createPod) String() string {
	text := fmt.Sprintf("pod %s uses %s", m.key, m.claim)
	if m.scheduled {
		text += ", scheduled"
	}
	return text
}

func (m createPod) do(w *world) error {
	namespace, name := m.key.split()
	_, claim := m.claim.split()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	if m.scheduled {
		pod.Spec.NodeName = "n1"
	}
	_, err := w.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// endPod schedules, completes or deletes a pod.
type endPod struct {
	key key
	how string // "scheduled", "succeeded", "deleted"
}

func (e endPod) String() string { return fmt.Sprintf("pod %s is %s", e.key, e.how) }

func (e endPod) do(w *world) error {
	pod, ok := w.pod(e.key)
	if !ok {
		return nil
	}
	pods := w.client.CoreV1().Pods(pod.Namespace)
	switch e.how {
	case "scheduled":
		return pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
		}, metav1.CreateOptions{})
	case "succeeded":
		pod.Status.Phase = corev1.PodSucceeded
		_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	default:
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	}
}
