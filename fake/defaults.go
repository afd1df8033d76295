package fake

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

// What a field holds that was left open. Defaults are applied to every object that is written, also to the outcome of a
// patch, so that an update may leave open what the creation left open. Times lose what the wire would not carry.
//
// Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/storage/v1/defaults.go.

func defaultNamespace(ns *corev1.Namespace) {
	if ns.Name != "" {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
	}
	fill(&ns.Status.Phase, corev1.NamespaceActive)
}

func defaultNode(node *corev1.Node) {
	if node.Status.Allocatable == nil && node.Status.Capacity != nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		truncate(&c.LastHeartbeatTime, &c.LastTransitionTime)
	}
}

func defaultVolume(volume *corev1.PersistentVolume) {
	fill(&volume.Status.Phase, corev1.VolumePending)
	fill(&volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	set(&volume.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	if h := volume.Spec.HostPath; h != nil {
		set(&h.Type, corev1.HostPathUnset)
	}
	if i := volume.Spec.ISCSI; i != nil {
		fill(&i.ISCSIInterface, "default")
	}
	truncate(volume.Status.LastPhaseTransitionTime)
}

func defaultClaim(claim *corev1.PersistentVolumeClaim) {
	fill(&claim.Status.Phase, corev1.ClaimPending)
	set(&claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	for i := range claim.Status.Conditions {
		c := &claim.Status.Conditions[i]
		truncate(&c.LastProbeTime, &c.LastTransitionTime)
	}
}

func defaultEvent(event *corev1.Event) { truncate(&event.FirstTimestamp, &event.LastTimestamp) }

func defaultClass(class *storagev1.StorageClass) {
	set(&class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	set(&class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func defaultAttachment(attachment *storagev1.VolumeAttachment) {
	for _, e := range []*storagev1.VolumeError{attachment.Status.AttachError, attachment.Status.DetachError} {
		if e != nil {
			truncate(&e.Time)
		}
	}
}

func defaultDriver(driver *storagev1.CSIDriver) {
	spec := &driver.Spec
	set(&spec.AttachRequired, true)
	set(&spec.PodInfoOnMount, false)
	set(&spec.StorageCapacity, false)
	set(&spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	set(&spec.RequiresRepublish, false)
	set(&spec.SELinuxMount, false)
	if len(spec.VolumeLifecycleModes) == 0 {
		spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	set(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	set(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.Volumes {
		defaultPodVolume(&spec.Volumes[i].VolumeSource)
	}
	fill(&pod.Status.Phase, corev1.PodPending)
	truncate(pod.Status.StartTime)
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		truncate(&c.LastProbeTime, &c.LastTransitionTime)
	}
}

func defaultContainer(c *corev1.Container) {
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = corev1.PullIfNotPresent
		if latest(c.Image) {
			c.ImagePullPolicy = corev1.PullAlways
		}
	}
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for name, limit := range c.Resources.Limits {
		if _, ok := c.Resources.Requests[name]; !ok {
			if c.Resources.Requests == nil {
				c.Resources.Requests = corev1.ResourceList{}
			}
			c.Resources.Requests[name] = limit.DeepCopy()
		}
	}
}

// latest tells whether an image's tag is latest, as it is when it has neither tag nor digest.
func latest(image string) bool {
	if strings.Contains(image, "@") || image == "" {
		return false
	}
	_, tag, ok := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	return !ok || tag == "latest"
}

func defaultPodVolume(source *corev1.VolumeSource) {
	switch {
	case source.PersistentVolumeClaim != nil:
	case source.HostPath != nil:
		set(&source.HostPath.Type, corev1.HostPathUnset)
	case source.Secret != nil:
		set(&source.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case source.ConfigMap != nil:
		set(&source.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case source.DownwardAPI != nil:
		set(&source.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
	case source.Projected != nil:
		set(&source.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	case source.Ephemeral != nil:
		if t := source.Ephemeral.VolumeClaimTemplate; t != nil {
			set(&t.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		}
	case reflect.ValueOf(*source).IsZero():
		source.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
}

// fill gives a field its default if it is empty.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// set gives a field its default if it is nil.
func set[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
