package rules

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What a pod, and a template of pods, holds that was left open.
//
// Upstream: pkg/apis/core/v1/defaults.go SetDefaults_Pod, SetDefaults_PodSpec and what they lead to.
// Differs: pod-level resources are left as they are.

func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	defaultPodSpec(spec)
	set(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			defaultRequests(&containers[i].Resources)
			for j := range containers[i].Ports {
				if port := &containers[i].Ports[j]; spec.HostNetwork {
					fill(&port.HostPort, port.ContainerPort)
				}
			}
		}
	}
	fill(&pod.Status.Phase, corev1.PodPending)
	Truncate(pod.Status.StartTime)
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		Truncate(&c.LastProbeTime, &c.LastTransitionTime)
	}
}

// defaultRequests requests what is the limit.
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

// defaultPodSpec fills in the spec of a pod or of a template of pods. The field serviceAccount, of old, says what
// serviceAccountName says.
func defaultPodSpec(spec *corev1.PodSpec) {
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	set(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	fill(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
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
	for i := range spec.Volumes {
		defaultPodVolume(&spec.Volumes[i].VolumeSource)
	}
}

func defaultContainer(c *corev1.Container) {
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	fill(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
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

// latest tells whether an image's tag is latest, as it is when it has neither tag nor digest.
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
	fill(&p.TimeoutSeconds, 1)
	fill(&p.PeriodSeconds, 10)
	fill(&p.SuccessThreshold, 1)
	fill(&p.FailureThreshold, 3)
	defaultGet(p.HTTPGet)
	if p.GRPC != nil {
		set(&p.GRPC.Service, "")
	}
}

func defaultGet(get *corev1.HTTPGetAction) {
	if get != nil {
		fill(&get.Path, "/")
		fill(&get.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		fill(&ref.APIVersion, "v1")
	}
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
		defaultDownward(source.DownwardAPI.Items)
	case source.Projected != nil:
		set(&source.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range source.Projected.Sources {
			from := &source.Projected.Sources[i]
			if from.ServiceAccountToken != nil {
				set(&from.ServiceAccountToken.ExpirationSeconds, TokenSecondsDefault)
			}
			if from.DownwardAPI != nil {
				defaultDownward(from.DownwardAPI.Items)
			}
		}
	case source.Ephemeral != nil:
		if t := source.Ephemeral.VolumeClaimTemplate; t != nil {
			set(&t.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		}
	case source.Image != nil:
		fill(&source.Image.PullPolicy, pullPolicy(source.Image.Reference))
	case reflect.ValueOf(*source).IsZero():
		source.EmptyDir = &corev1.EmptyDirVolumeSource{}
	default:
		defaultOldPodVolume(source)
	}
}

func defaultDownward(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}

// defaultOldPodVolume fills in sources that drivers took the place of.
func defaultOldPodVolume(source *corev1.VolumeSource) {
	switch {
	case source.ISCSI != nil:
		fill(&source.ISCSI.ISCSIInterface, iscsiInterfaceDefault)
	case source.RBD != nil:
		fill(&source.RBD.RBDPool, rbdPoolDefault)
		fill(&source.RBD.RadosUser, rbdUserDefault)
		fill(&source.RBD.Keyring, rbdKeyringDefault)
	case source.AzureDisk != nil:
		defaultAzureDisk(source.AzureDisk)
	case source.ScaleIO != nil:
		fill(&source.ScaleIO.StorageMode, scaleIOModeDefault)
		fill(&source.ScaleIO.FSType, scaleIOFSDefault)
	}
}
