package fake

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const podUpdateMsg = "pod updates may not change fields other than `spec.containers[*].image`," +
	"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n%v"

// validatePod checks a pod to be created.
//
// Upstream: pkg/apis/core/validation ValidatePodCreate.
// Differs: only what has to do with volumes, containers' names and images, the restart policy and scheduling gates.
func validatePod(pod, _ *corev1.Pod) field.ErrorList {
	errs := validatePodSpec(pod)
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("nodeName"),
			"cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

func validatePodSpec(pod *corev1.Pod) field.ErrorList {
	spec := &pod.Spec
	known, errs := validatePodVolumes(pod, specPath.Child("volumes"))
	path := specPath.Child("containers")
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	seen := map[string]bool{}
	for i := range spec.Containers {
		errs = append(errs, validateContainer(&spec.Containers[i], known, seen, path.Index(i))...)
	}
	path = specPath.Child("initContainers")
	for i := range spec.InitContainers {
		errs = append(errs, validateContainer(&spec.InitContainers[i], known, seen, path.Index(i))...)
	}
	errs = append(errs, oneOf(spec.RestartPolicy, specPath.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)...)
	if spec.NodeName != "" {
		errs = append(errs, validateName(spec.NodeName, specPath.Child("nodeName"))...)
	}
	return errs
}

// validatePodVolumes checks a pod's volumes, and returns those that are in order, by name.
func validatePodVolumes(pod *corev1.Pod, path *field.Path) (map[string]*corev1.VolumeSource, field.ErrorList) {
	volumes := pod.Spec.Volumes
	if len(volumes) == 0 {
		return nil, nil
	}
	var errs field.ErrorList
	known := make(map[string]*corev1.VolumeSource, len(volumes))
	ephemeral := map[string]bool{}
	for _, v := range volumes {
		if v.Ephemeral != nil && pod.Name != "" {
			ephemeral[pod.Name+"-"+v.Name] = true
		}
	}
	for i := range volumes {
		v, path := &volumes[i], path.Index(i)
		own := validatePodVolumeSource(&v.VolumeSource, path)
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

func validatePodVolumeSource(source *corev1.VolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sources(reflect.ValueOf(*source))
	if len(names) == 0 {
		return field.ErrorList{field.Required(path, "must specify a volume type")}
	}
	switch {
	case source.HostPath != nil:
		errs = validateHostPath(source.HostPath, path.Child("hostPath"))
	case source.PersistentVolumeClaim != nil:
		if source.PersistentVolumeClaim.ClaimName == "" {
			errs = append(errs, field.Required(path.Child("persistentVolumeClaim", "claimName"), ""))
		}
	case source.Ephemeral != nil:
		if source.Ephemeral.VolumeClaimTemplate == nil {
			errs = append(errs, field.Required(path.Child("ephemeral", "volumeClaimTemplate"), ""))
		}
	case source.NFS != nil:
		errs = validateNFS(source.NFS, path.Child("nfs"))
	case source.CSI != nil:
		errs = validateDriverName(source.CSI.Driver, path.Child("csi", "driver"))
	}
	for _, name := range names[1:] {
		errs = append(errs, field.Forbidden(path.Child(name), oneSourceMsg))
	}
	return errs
}

func validateLabel(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// validateContainer checks a container and what it mounts of the known volumes. seen is the names of those before it.
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
		path := path.Child("volumeMounts").Index(i)
		errs = append(errs, validateMount(m, known, path)...)
		if paths[m.MountPath] {
			errs = append(errs, field.Invalid(path.Child("mountPath"), m.MountPath, "must be unique"))
		}
		mounted[m.Name], paths[m.MountPath] = true, true
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

// validatePodUpdate checks what of a pod may change.
//
// Upstream: pkg/apis/core/validation ValidatePodUpdate.
// Differs: a gated pod's node selector and affinity may not change either.
func validatePodUpdate(pod, old *corev1.Pod) field.ErrorList {
	if samePodSpec(&pod.Spec, &old.Spec) {
		return nil
	}
	errs := validatePodSpec(pod)
	if len(pod.Spec.Containers) != len(old.Spec.Containers) {
		return append(errs, field.Forbidden(specPath.Child("containers"), "pod updates may not add or remove containers"))
	}
	if len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(specPath.Child("initContainers"), "pod updates may not add or remove containers"))
	}
	errs = append(errs, validateDeadlineUpdate(pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds)...)
	errs = append(errs, validateTolerationsUpdate(pod.Spec.Tolerations, old.Spec.Tolerations)...)
	errs = append(errs, validateGatesUpdate(pod.Spec.SchedulingGates, old.Spec.SchedulingGates)...)

	is := pod.Spec.DeepCopy()
	for i := range is.Containers {
		is.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range is.InitContainers {
		is.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	is.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	is.Tolerations = old.Spec.Tolerations
	is.SchedulingGates = old.Spec.SchedulingGates
	if was, now := old.Spec.TerminationGracePeriodSeconds, is.TerminationGracePeriodSeconds; was != nil && *was < 0 &&
		now != nil && *now == 1 {
		is.TerminationGracePeriodSeconds = was
	}
	if !equality.Semantic.DeepEqual(*is, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, fmt.Sprintf(podUpdateMsg, diff.Diff(old.Spec, *is))))
	}
	return errs
}

func validateDeadlineUpdate(is, was *int64) field.ErrorList {
	path := specPath.Child("activeDeadlineSeconds")
	switch {
	case is == nil && was != nil:
		return field.ErrorList{field.Invalid(path, is, "must not update from a positive integer to nil value")}
	case is == nil:
	case *is < 0 || *is > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, *is, utilvalidation.InclusiveRangeError(0, math.MaxInt32))}
	case was != nil && *was < *is:
		return field.ErrorList{field.Invalid(path, *is, "must be less than or equal to previous value")}
	}
	return nil
}

// validateTolerationsUpdate checks that tolerations are only added.
func validateTolerationsUpdate(is, was []corev1.Toleration) field.ErrorList {
	for _, old := range was {
		kept := slices.ContainsFunc(is, func(t corev1.Toleration) bool {
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

// validateGatesUpdate checks that scheduling gates are only taken away.
func validateGatesUpdate(is, was []corev1.PodSchedulingGate) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range is {
		if !slices.Contains(was, gate) {
			errs = append(errs, field.Forbidden(specPath.Child("schedulingGates").Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name)))
		}
	}
	return errs
}

// validateEvent checks that an event is in the namespace of what it is about.
//
// Upstream: pkg/apis/core/validation legacyValidateEvent.
func validateEvent(event, _ *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	about := event.InvolvedObject.Namespace
	path := field.NewPath("involvedObject", "namespace")
	if event.EventTime.IsZero() {
		if about == "" && event.Namespace != "default" || about != "" && about != event.Namespace {
			errs = append(errs, field.Invalid(path, about, "does not match event.namespace"))
		}
		return errs
	}
	if about == "" && event.Namespace != "default" && event.Namespace != "kube-system" {
		errs = append(errs, field.Invalid(path, about, "does not match event.namespace"))
	}
	for _, f := range []struct{ name, value string }{
		{"reportingComponent", event.ReportingController},
		{"reportingInstance", event.ReportingInstance},
		{"action", event.Action},
		{"reason", event.Reason},
	} {
		if strings.TrimSpace(f.value) == "" {
			errs = append(errs, field.Required(field.NewPath(f.name), ""))
		}
	}
	return errs
}
