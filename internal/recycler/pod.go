package recycler

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names in a recycler pod.
const (
	namePrefix = "recycler-for-"
	container  = "pv-recycler"
	scrubDir   = "/scrub"
	gate       = "volsim.dev/volume-is-held" // scheduling gate
)

// defaultImage is the image of recycler pods without its registry.
//
// Upstream: pkg/volume NewPersistentVolumeRecyclerPodTemplate (v1.36).
const defaultImage = "build-image/debian-base:bookworm-v1.0.6"

// template returns the recycler pod without its name, image, deadline and the source of its only
// volume.
//
// Differs: only the image is configurable.
//
// Upstream: pkg/volume NewPersistentVolumeRecyclerPodTemplate (v1.36).
func template() *corev1.Pod {
	deadline := int64(60)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			ActiveDeadlineSeconds: &deadline,
			RestartPolicy:         corev1.RestartPolicyNever,
			Volumes:               []corev1.Volume{{Name: "vol"}},
			Containers: []corev1.Container{{
				Name:    container,
				Command: []string{"/bin/sh"},
				Args: []string{
					"-c",
					`test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1`,
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "vol", MountPath: scrubDir}},
			}},
		},
	}
}

// Deadline returns how long a pod may take to recycle a volume: perGiB for each GiB, but at least
// minimum.
//
// Upstream: pkg/volume/util CalculateTimeoutForVolume (v1.36).
func Deadline(volume *corev1.PersistentVolume, minimum, perGiB time.Duration) time.Duration {
	size := volume.Spec.Capacity[corev1.ResourceStorage]
	return max(minimum, time.Duration(size.Value()>>30)*perGiB)
}

// podFor returns the pod of a job.
func podFor(job Job, image string) *corev1.Pod {
	pod := template()
	pod.Spec.Containers[0].Image = image
	pod.Name = namePrefix + job.Volume
	seconds := int64(job.Deadline / time.Second)
	pod.Spec.ActiveDeadlineSeconds = &seconds
	pod.Spec.Volumes[0].VolumeSource = job.Source
	if job.Acquire != nil {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gate})
	}
	return pod
}

// PodVolume returns the name of the PersistentVolume that a pod recycles, and its source. It
// returns false for a pod that is not a recycler pod.
func PodVolume(pod *corev1.Pod) (volume string, source corev1.VolumeSource, ok bool) {
	volume, ok = strings.CutPrefix(pod.Name, namePrefix)
	if !ok || len(pod.Spec.Containers) != 1 || pod.Spec.Containers[0].Name != container {
		return "", corev1.VolumeSource{}, false
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			if m.MountPath == scrubDir && m.Name == v.Name {
				return volume, v.VolumeSource, true
			}
		}
	}
	return "", corev1.VolumeSource{}, false
}
