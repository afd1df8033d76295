package rules

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// This file has the defaults of a pod and of a pod template.
//
// Upstream: pkg/apis/core/v1/defaults.go SetDefaults_Pod, SetDefaults_PodSpec and their callees.
// Differs: pod-level resources have no defaults.

func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	defaultPodSpec(spec)
	setIfNil(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			defaultRequests(&containers[i].Resources)
			for j := range containers[i].Ports {
				if port := &containers[i].Ports[j]; spec.HostNetwork {
					setIfEmpty(&port.HostPort, port.ContainerPort)
				}
			}
		}
	}
	setIfEmpty(&pod.Status.Phase, corev1.PodPending)
	Truncate(pod.Status.StartTime)
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		Truncate(&c.LastProbeTime, &c.LastTransitionTime)
	}
}

// defaultRequests sets the requests that are missing to the limits.
func defaultRequests(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

// defaultPodSpec sets the defaults of the spec of a pod or pod template. The deprecated field
// serviceAccount has the value of serviceAccountName.
func defaultPodSpec(spec *corev1.PodSpec) {
	setIfEmpty(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setIfEmpty(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setIfEmpty(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setIfNil(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	setIfEmpty(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		defaultContainer((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	for i := range spec.Volumes {
		defaultPodVolume(&spec.Volumes[i].VolumeSource)
	}
}

func defaultContainer(c *corev1.Container) {
	setIfEmpty(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setIfEmpty(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	setIfEmpty(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		setIfEmpty(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
		}
	}
	defaultProbe(c.LivenessProbe)
	defaultProbe(c.ReadinessProbe)
	defaultProbe(c.StartupProbe)
	if l := c.Lifecycle; l != nil {
		for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
			if h != nil {
				defaultGet(h.HTTPGet)
			}
		}
	}
}

func pullPolicy(image string) corev1.PullPolicy {
	if latest(image) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// latest reports whether an image has the tag latest, which it also has without tag and digest.
func latest(image string) bool {
	if strings.Contains(image, "@") || image == "" {
		return false
	}
	_, tag, ok := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	return !ok || tag == "latest"
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setIfEmpty(&p.TimeoutSeconds, 1)
	setIfEmpty(&p.PeriodSeconds, 10)
	setIfEmpty(&p.SuccessThreshold, 1)
	setIfEmpty(&p.FailureThreshold, 3)
	defaultGet(p.HTTPGet)
	if p.GRPC != nil {
		setIfNil(&p.GRPC.Service, "")
	}
}

func defaultGet(get *corev1.HTTPGetAction) {
	if get != nil {
		setIfEmpty(&get.Path, "/")
		setIfEmpty(&get.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		setIfEmpty(&ref.APIVersion, "v1")
	}
}

func defaultPodVolume(source *corev1.VolumeSource) {
	switch {
	case source.PersistentVolumeClaim != nil:
	case source.HostPath != nil:
		setIfNil(&source.HostPath.Type, corev1.HostPathUnset)
	case source.Secret != nil:
		setIfNil(&source.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case source.ConfigMap != nil:
		setIfNil(&source.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case source.DownwardAPI != nil:
		setIfNil(&source.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(source.DownwardAPI.Items)
	case source.Projected != nil:
		setIfNil(&source.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range source.Projected.Sources {
			from := &source.Projected.Sources[i]
			if from.ServiceAccountToken != nil {
				setIfNil(&from.ServiceAccountToken.ExpirationSeconds, TokenSecondsDefault)
			}
			if from.DownwardAPI != nil {
				defaultDownward(from.DownwardAPI.Items)
			}
		}
	case source.Ephemeral != nil:
		if t := source.Ephemeral.VolumeClaimTemplate; t != nil {
			setIfNil(&t.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		}
	case source.Image != nil:
		setIfEmpty(&source.Image.PullPolicy, pullPolicy(source.Image.Reference))
	case reflect.ValueOf(*source).IsZero():
		source.EmptyDir = &corev1.EmptyDirVolumeSource{}
	default:
		defaultLegacyPodVolume(source)
	}
}

func defaultDownward(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}

// defaultLegacyPodVolume sets the defaults of the sources that CSI drivers replaced.
func defaultLegacyPodVolume(source *corev1.VolumeSource) {
	switch {
	case source.ISCSI != nil:
		setIfEmpty(&source.ISCSI.ISCSIInterface, iscsiInterfaceDefault)
	case source.RBD != nil:
		setIfEmpty(&source.RBD.RBDPool, rbdPoolDefault)
		setIfEmpty(&source.RBD.RadosUser, rbdUserDefault)
		setIfEmpty(&source.RBD.Keyring, rbdKeyringDefault)
	case source.AzureDisk != nil:
		defaultAzureDisk(source.AzureDisk)
	case source.ScaleIO != nil:
		setIfEmpty(&source.ScaleIO.StorageMode, scaleIOModeDefault)
		setIfEmpty(&source.ScaleIO.FSType, scaleIOFSDefault)
	}
}
