package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClassName is the name of the default storage class of every cluster.
const ClassName = "standard"

// NewClaim returns a ReadWriteOnce claim of the default class for size, such as "64Mi". It panics
// if size is not a quantity.
func NewClaim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			},
		},
	}
}

// NewPod returns a pod with one container that mounts each of the claims below /mnt, as a volume of
// the claim's name.
func NewPod(name string, claims ...string) *corev1.Pod {
	container := corev1.Container{Name: "main", Image: "pause"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: claim,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			},
		})
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: claim, MountPath: "/mnt/" + claim})
	}
	pod.Spec.Containers = []corev1.Container{container}
	return pod
}
