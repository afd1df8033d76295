package statefulset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volsim/volsim/internal/workload"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// splitName returns the parts of a name such as web-0. A name without an ordinal has the ordinal -1.
//
// Differs: an ordinal with leading zeros is none. Upstream takes web-00 for the pod of ordinal 0, also
// while web-0 exists.
//
// Upstream: pkg/controller/statefulset getParentNameAndOrdinal (v1.36).
func splitName(name string) (parent string, ordinal int) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || i == len(name)-1 || strings.Trim(name[i+1:], "0123456789") != "" {
		return "", -1
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || strconv.FormatInt(n, 10) != name[i+1:] {
		return name[:i], -1
	}
	return name[:i], int(n)
}

func ordinalOf(pod *corev1.Pod) int {
	_, ordinal := splitName(pod.Name)
	return ordinal
}

func podName(set *appsv1.StatefulSet, ordinal int) string {
	return fmt.Sprintf("%s-%d", set.Name, ordinal)
}

// firstOrdinal returns the ordinal of the set's first pod.
func firstOrdinal(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals != nil {
		return int(set.Spec.Ordinals.Start)
	}
	return 0
}

// inRange reports whether the set has a pod of this ordinal.
func inRange(set *appsv1.StatefulSet, ordinal int) bool {
	first := firstOrdinal(set)
	return ordinal >= first && ordinal < first+int(*set.Spec.Replicas)
}

// newPod returns the pod of an ordinal, with the template of the set.
//
// Upstream: pkg/controller/statefulset newStatefulSetPod, pkg/controller GetPodFromTemplate (v1.36).
func newPod(set *appsv1.StatefulSet, revision string, ordinal int) *corev1.Pod {
	t := set.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(set, ordinal), Namespace: set.Namespace, GenerateName: namePrefix(set.Name),
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{workload.ControllerRef(set, setKind)},
		},
		Spec: t.Spec,
	}
	setIdentity(set, pod, ordinal)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
	setVolumes(set, pod)
	return pod
}

// namePrefix returns the generated part of a pod's name, which is never used.
func namePrefix(set string) string {
	if len(validation.IsDNS1123Subdomain(set+"-0")) > 0 {
		return set
	}
	return set + "-"
}

// setIdentity gives a pod the name and labels of an ordinal.
//
// Upstream: pkg/controller/statefulset updateIdentity (v1.36).
func setIdentity(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) {
	pod.Name, pod.Namespace = podName(set, ordinal), set.Namespace
	pod.Labels = maps.Clone(pod.Labels)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
}

// hasIdentity reports whether a pod has the name and the label of its ordinal.
//
// Upstream: pkg/controller/statefulset identityMatches (v1.36).
func hasIdentity(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	parent, ordinal := splitName(pod.Name)
	return ordinal >= 0 && parent == set.Name && pod.Namespace == set.Namespace &&
		pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name
}

// setVolumes gives a pod a volume for each claim template. They replace volumes of the same names.
//
// Upstream: pkg/controller/statefulset updateStorage (v1.36).
func setVolumes(set *appsv1.StatefulSet, pod *corev1.Pod) {
	var volumes []corev1.Volume
	own := map[string]bool{}
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		if own[t.Name] {
			continue
		}
		own[t.Name] = true
		volumes = append(volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, t, ordinalOf(pod))},
		}})
	}
	for _, v := range pod.Spec.Volumes {
		if !own[v.Name] {
			volumes = append(volumes, v)
		}
	}
	pod.Spec.Volumes = volumes
}

// hasVolumes reports whether a pod has a volume for each claim template.
//
// Upstream: pkg/controller/statefulset storageMatches (v1.36).
func hasVolumes(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	ordinal := ordinalOf(pod)
	if ordinal < 0 {
		return false
	}
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == t.Name && v.PersistentVolumeClaim != nil &&
				v.PersistentVolumeClaim.ClaimName == claimName(set, t, ordinal)
		}) {
			return false
		}
	}
	return true
}

func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.StatefulSetRevisionLabel] }

func isRunningAndReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && workload.Ready(pod) != nil
}
