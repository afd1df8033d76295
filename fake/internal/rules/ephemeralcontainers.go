package rules

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ephemeralMsg is the message for what an ephemeral container may not have.
const ephemeralMsg = "cannot be set for an Ephemeral Container"

// ephemeralFields are the fields that an ephemeral container may have.
//
// Upstream: pkg/apis/core/validation allowedEphemeralContainerFields (v1.36).
var ephemeralFields = sets.New("Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices",
	"TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy", "SecurityContext", "Stdin", "StdinOnce", "TTY")

// PrepareEphemeralContainers restores all of a pod except its ephemeral containers.
//
// Upstream: pkg/registry/core/pod podEphemeralContainersStrategy.PrepareForUpdate (v1.36).
func PrepareEphemeralContainers(pod, old *corev1.Pod) {
	sent := pod.Spec.EphemeralContainers
	pod.Spec = old.Spec
	pod.Spec.EphemeralContainers = sent
	pod.Labels, pod.Annotations, pod.Finalizers, pod.OwnerReferences = old.Labels, old.Annotations, old.Finalizers, old.OwnerReferences
	pod.DeletionTimestamp = old.DeletionTimestamp
	if !samePodSpec(&pod.Spec, &old.Spec) {
		pod.Generation = old.Generation + 1
	}
}

// ValidateEphemeralContainers validates a write of a pod's ephemeral containers: they are only added.
//
// Differs: of the pod only the containers and their mounts are validated again.
//
// Upstream: pkg/apis/core/validation ValidatePodEphemeralContainersUpdate, validateEphemeralContainers (v1.36).
func ValidateEphemeralContainers(pod, old *corev1.Pod) field.ErrorList {
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	path := specPath.Child("ephemeralContainers")
	known, errs := validatePodVolumes(pod.Name, &pod.Spec, specPath.Child("volumes"))
	names := sets.New[string]()
	for _, all := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range all {
			names.Insert(all[i].Name)
		}
	}
	targets := names.Clone()
	is := map[string]*corev1.EphemeralContainer{}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		is[c.Name] = c
		errs = append(errs, validateContainer((*corev1.Container)(&c.EphemeralContainerCommon), known, map[string]bool{}, path.Index(i))...)
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), c.Name))
		}
		names.Insert(c.Name)
		if c.TargetContainerName != "" && !targets.Has(c.TargetContainerName) {
			errs = append(errs, field.NotFound(path.Index(i).Child("targetContainerName"), c.TargetContainerName))
		}
		errs = append(errs, validateEphemeralFields(c, path.Index(i))...)
	}
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		switch c := is[was.Name]; {
		case c == nil:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
		case !equality.Semantic.DeepEqual(was, c):
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(*was, *c))))
		}
	}
	return errs
}

// validateEphemeralFields validates that a container has only fields that an ephemeral container may have.
func validateEphemeralFields(c *corev1.EphemeralContainer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	all := reflect.ValueOf(c.EphemeralContainerCommon)
	for i := range all.NumField() {
		if name := all.Type().Field(i).Name; !ephemeralFields.Has(name) && !all.Field(i).IsZero() {
			errs = append(errs, field.Forbidden(path.Child(strings.ToLower(name[:1])+name[1:]), ephemeralMsg))
		}
	}
	for i := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		if c.VolumeMounts[i].SubPath != "" {
			errs = append(errs, field.Forbidden(at.Child("subPath"), ephemeralMsg))
		}
		if c.VolumeMounts[i].SubPathExpr != "" {
			errs = append(errs, field.Forbidden(at.Child("subPathExpr"), ephemeralMsg))
		}
	}
	return errs
}
