package controller

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dbv1 "github.com/volsim/volsim/test/operator/api/v1"
)

func podName(db *dbv1.Database, number int) string { return fmt.Sprintf("%s-%d", db.Name, number) }

func labels(db *dbv1.Database, number int) map[string]string {
	return map[string]string{DatabaseLabel: db.Name, ReplicaLabel: strconv.Itoa(number)}
}

func newClaim(db *dbv1.Database, number int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: "data-" + podName(db, number), Labels: labels(db, number)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: db.Spec.Storage},
			},
		},
	}
}

func newPod(db *dbv1.Database, number int, claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: podName(db, number), Labels: labels(db, number)},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "database", Image: db.Spec.Image,
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/database"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
}
