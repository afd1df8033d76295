package rules

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const podUpdateMsg = "pod updates may not change fields other than `spec.containers[*].image`," +
	"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n%v"

// validatePod validates a pod to be created.
//
// Differs: only volumes, the names and images of containers, the restart policy and scheduling
// gates are validated.
//
// Upstream: pkg/apis/core/validation ValidatePodCreate.
func validatePod(pod, _ *corev1.Pod) field.ErrorList {
	errs := validatePodSpec(pod.Name, &pod.Spec, specPath)
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("nodeName"),
			"cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// validatePodSpec validates the spec of a pod or of a pod template; the name of a template is "".
func validatePodSpec(name string, spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	known, errs := validatePodVolumes(name, spec, at.Child("volumes"))
	path := at.Child("containers")
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	seen := map[string]bool{}
	for i := range spec.Containers {
		errs = append(errs, validateContainer(&spec.Containers[i], known, seen, path.Index(i))...)
	}
	path = at.Child("initContainers")
	for i := range spec.InitContainers {
		errs = append(errs, validateContainer(&spec.InitContainers[i], known, seen, path.Index(i))...)
	}
	errs = append(errs, oneOfOrdered(string(spec.RestartPolicy), at.Child("restartPolicy"), restartPolicies...)...)
	errs = append(errs, oneOfOrdered(string(spec.DNSPolicy), at.Child("dnsPolicy"), dnsPolicies...)...)
	errs = append(errs, validateGates(spec.SchedulingGates, at.Child("schedulingGates"))...)
	if spec.NodeName != "" {
		errs = append(errs, validateName(spec.NodeName, at.Child("nodeName"))...)
	}
	if s := spec.ActiveDeadlineSeconds; s != nil && (*s < 1 || *s > math.MaxInt32) {
		errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *s,
			utilvalidation.InclusiveRangeError(1, math.MaxInt32)))
	}
	return errs
}

var (
	restartPolicies = []string{
		string(corev1.RestartPolicyAlways), string(corev1.RestartPolicyOnFailure), string(corev1.RestartPolicyNever),
	}
	dnsPolicies = []string{
		string(corev1.DNSClusterFirstWithHostNet), string(corev1.DNSClusterFirst),
		string(corev1.DNSDefault), string(corev1.DNSNone),
	}
)

func validateGates(gates []corev1.PodSchedulingGate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, gate := range gates {
		errs = append(errs, validateQualified(gate.Name, path.Index(i))...)
		if seen[gate.Name] {
			errs = append(errs, field.Duplicate(path.Index(i), gate.Name))
		}
		seen[gate.Name] = true
	}
	return errs
}

// validatePodVolumes validates a pod's volumes, and returns the valid ones by name.
func validatePodVolumes(pod string, spec *corev1.PodSpec,
	path *field.Path,
) (map[string]*corev1.VolumeSource, field.ErrorList) {
	volumes := spec.Volumes
	if len(volumes) == 0 {
		return nil, nil
	}
	var errs field.ErrorList
	known := make(map[string]*corev1.VolumeSource, len(volumes))
	ephemeral := map[string]bool{}
	for _, v := range volumes {
		if v.Ephemeral != nil && pod != "" {
			ephemeral[pod+"-"+v.Name] = true
		}
	}
	for i := range volumes {
		v, path := &volumes[i], path.Index(i)
		own := validatePodVolumeSource(&v.VolumeSource, spec.ServiceAccountName, path)
		if v.Name == "" {
			own = append(own, field.Required(path.Child("name"), ""))
		} else {
			own = append(own, validateLabel(v.Name, path.Child("name"))...)
		}
		if known[v.Name] != nil {
			own = append(own, field.Duplicate(path.Child("name"), v.Name))
		}
		if len(own) == 0 {
			known[v.Name] = &v.VolumeSource
		}
		errs = append(errs, own...)
		if c := v.PersistentVolumeClaim; c != nil && ephemeral[c.ClaimName] {
			errs = append(errs, field.Invalid(path.Child("persistentVolumeClaim", "claimName"), c.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return known, errs
}

func validateLabel(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// validateContainer validates a container and its mounts of the known volumes. seen has the names
// of the containers before it.
func validateContainer(c *corev1.Container, known map[string]*corev1.VolumeSource, seen map[string]bool,
	path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, validateLabel(c.Name, path.Child("name"))...)
	}
	if seen[c.Name] {
		errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
	}
	seen[c.Name] = true
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	mounted, paths := map[string]bool{}, map[string]bool{}
	for i, m := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		errs = append(errs, validateMount(m, known, at)...)
		if paths[m.MountPath] {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		mounted[m.Name], paths[m.MountPath] = true, true
		errs = append(errs, validateMountKind(m, c, path.Child("volumeMounts"), at)...)
	}
	devices := map[string]bool{}
	for i, d := range c.VolumeDevices {
		path := path.Child("volumeDevices").Index(i)
		errs = append(errs, validateDevice(d, known, path)...)
		if devices[d.Name] {
			errs = append(errs, field.Invalid(path.Child("name"), d.Name, "must be unique"))
		}
		devices[d.Name] = true
		if mounted[d.Name] {
			errs = append(errs, field.Invalid(path.Child("name"), d.Name, "must not already exist in volumeMounts"))
		}
		if paths[d.DevicePath] {
			errs = append(errs, field.Invalid(path.Child("devicePath"), d.DevicePath,
				"must not already exist as a path in volumeMounts"))
		}
	}
	return errs
}

func validateMount(m corev1.VolumeMount, known map[string]*corev1.VolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if known[m.Name] == nil {
		errs = append(errs, field.NotFound(path.Child("name"), m.Name))
	}
	if m.MountPath == "" {
		errs = append(errs, field.Required(path.Child("mountPath"), ""))
	}
	return errs
}

// validateMountKind validates the options of a mount, and that it is not also a device. Some paths
// lack the index, as upstream's do.
func validateMountKind(m corev1.VolumeMount, c *corev1.Container, path, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, d := range c.VolumeDevices {
		if d.Name == m.Name {
			errs = append(errs, field.Invalid(at.Child("name"), m.Name, "must not already exist in volumeDevices"))
		}
	}
	for _, d := range c.VolumeDevices {
		if d.DevicePath == m.MountPath {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath,
				"must not already exist as a path in volumeDevices"))
		}
	}
	errs = append(errs, relativePath(m.SubPath, path.Child("subPath"))...)
	if m.SubPathExpr != "" && m.SubPath != "" {
		errs = append(errs, field.Invalid(at.Child("subPathExpr"), m.SubPathExpr,
			"subPathExpr and subPath are mutually exclusive"))
	}
	errs = append(errs, relativePath(m.SubPathExpr, path.Child("subPathExpr"))...)
	if m.MountPropagation == nil {
		return errs
	}
	path = path.Child("mountPropagation")
	errs = append(errs, oneOf(*m.MountPropagation, path, corev1.MountPropagationBidirectional,
		corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
	privileged := c.SecurityContext != nil && ptr.Deref(c.SecurityContext.Privileged, false)
	if *m.MountPropagation == corev1.MountPropagationBidirectional && !privileged {
		errs = append(errs,
			field.Forbidden(path, "Bidirectional mount propagation is available only to privileged containers"))
	}
	return errs
}

func validateDevice(d corev1.VolumeDevice, known map[string]*corev1.VolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	source := known[d.Name]
	switch {
	case d.Name == "":
		errs = append(errs, field.Required(path.Child("name"), ""))
	case source == nil:
		errs = append(errs, field.NotFound(path.Child("name"), d.Name))
	case source.PersistentVolumeClaim == nil && source.Ephemeral == nil:
		errs = append(errs, field.Invalid(path.Child("name"), d.Name,
			"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
	}
	if d.DevicePath == "" {
		errs = append(errs, field.Required(path.Child("devicePath"), ""))
	}
	return errs
}

func samePodSpec(a, b *corev1.PodSpec) bool { return equal(a, b) }

// validatePodUpdate validates an update of a pod.
//
// Differs: a gated pod's affinity must not change.
//
// Upstream: pkg/apis/core/validation ValidatePodUpdate.
func validatePodUpdate(pod, old *corev1.Pod) field.ErrorList {
	if samePodSpec(&pod.Spec, &old.Spec) {
		return nil
	}
	errs := validatePodSpec(pod.Name, &pod.Spec, specPath)
	if len(pod.Spec.Containers) != len(old.Spec.Containers) {
		return append(errs, field.Forbidden(specPath.Child("containers"),
			"pod updates may not add or remove containers"))
	}
	if len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(specPath.Child("initContainers"),
			"pod updates may not add or remove containers"))
	}
	errs = append(errs, validateDeadlineUpdate(pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds)...)
	errs = append(errs, validateTolerationsUpdate(pod.Spec.Tolerations, old.Spec.Tolerations)...)
	errs = append(errs, validateGatesUpdate(pod.Spec.SchedulingGates, old.Spec.SchedulingGates)...)

	spec := pod.Spec.DeepCopy()
	for i := range spec.Containers {
		spec.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range spec.InitContainers {
		spec.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	spec.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	spec.Tolerations = old.Spec.Tolerations
	spec.SchedulingGates = old.Spec.SchedulingGates
	if len(old.Spec.SchedulingGates) > 0 && includes(spec.NodeSelector, old.Spec.NodeSelector) {
		spec.NodeSelector = old.Spec.NodeSelector
	}
	if oldSeconds, now := old.Spec.TerminationGracePeriodSeconds, spec.TerminationGracePeriodSeconds; oldSeconds != nil && *oldSeconds < 0 &&
		now != nil && *now == 1 {
		spec.TerminationGracePeriodSeconds = oldSeconds
	}
	if !equality.Semantic.DeepEqual(*spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, fmt.Sprintf(podUpdateMsg, diff.Diff(old.Spec, *spec))))
	}
	return errs
}

// includes reports whether a selector has all requirements of another.
func includes(selector, other map[string]string) bool {
	for key, value := range other {
		if got, ok := selector[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// validatePodStatus validates a write of a pod's status.
//
// Differs: only the nominated node name is validated.
//
// Upstream: pkg/apis/core/validation ValidatePodStatusUpdate.
func validatePodStatus(pod, old *corev1.Pod) field.ErrorList {
	name, path := pod.Status.NominatedNodeName, statusPath.Child("nominatedNodeName")
	if name == "" || name == old.Status.NominatedNodeName {
		return nil
	}
	errs := validateName(name, path)
	if old.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(path, "may not be set on pods that are already bound to a node"))
	}
	return errs
}

func validateDeadlineUpdate(seconds, old *int64) field.ErrorList {
	path := specPath.Child("activeDeadlineSeconds")
	switch {
	case seconds == nil && old != nil:
		return field.ErrorList{field.Invalid(path, seconds, "must not update from a positive integer to nil value")}
	case seconds == nil:
	case *seconds < 0 || *seconds > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, *seconds, utilvalidation.InclusiveRangeError(0, math.MaxInt32))}
	case old != nil && *old < *seconds:
		return field.ErrorList{field.Invalid(path, *seconds, "must be less than or equal to previous value")}
	}
	return nil
}

// validateTolerationsUpdate validates that tolerations are only added.
func validateTolerationsUpdate(tolerations, old []corev1.Toleration) field.ErrorList {
	for _, old := range old {
		kept := slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			old.TolerationSeconds = t.TolerationSeconds
			return old == t
		})
		if !kept {
			return field.ErrorList{field.Forbidden(specPath.Child("tolerations"),
				"existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}

// validateGatesUpdate validates that scheduling gates are only removed.
func validateGatesUpdate(gates, old []corev1.PodSchedulingGate) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range gates {
		if !slices.Contains(old, gate) {
			errs = append(errs, field.Forbidden(specPath.Child("schedulingGates").Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name)))
		}
	}
	return errs
}
