package fieldpath

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Metadata returns the field of a pod's metadata at a path, such as "metadata.labels['app']". All
// labels, or annotations, are one line each, sorted.
//
// Upstream: pkg/fieldpath ExtractFieldPathAsString (v1.36).
func Metadata(pod *corev1.Pod, path string) (string, error) {
	if field, key, keyed := cutKey(path); keyed {
		return entry(pod, path, field, key)
	}
	switch path {
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	default:
		return "", fmt.Errorf("unsupported fieldPath: %v", path)
	}
}

// cutKey splits "metadata.labels['app']" into the field and the key.
func cutKey(path string) (field, key string, keyed bool) {
	inner, keyed := strings.CutSuffix(path, "']")
	if keyed {
		field, key, keyed = strings.Cut(inner, "['")
	}
	return field, key, keyed && field != ""
}

// entry returns one label or annotation.
func entry(pod *corev1.Pod, path, field, key string) (string, error) {
	var all map[string]string
	name := key
	switch field {
	case "metadata.annotations":
		all, name = pod.Annotations, strings.ToLower(key)
	case "metadata.labels":
		all = pod.Labels
	default:
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	if problems := validation.IsQualifiedName(name); len(problems) > 0 {
		return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(problems, ";"))
	}
	return all[key], nil
}

func lines(all map[string]string) string {
	var text []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		text = append(text, key+"="+strconv.Quote(all[key]))
	}
	return strings.Join(text, "\n")
}

// Resource returns a request or limit of a container of a pod, in units of the selector's divisor
// and rounded up. A container without a limit may use all that the node has.
//
// Upstream: pkg/api/v1/resource ExtractResourceValueByContainerNameAndNodeAllocatable (v1.36).
func Resource(pod *corev1.Pod, from *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	resources, err := resourcesOf(pod, from.ContainerName)
	if err != nil {
		return "", err
	}
	return ResourceOf(&resources, from, allocatable)
}

// ResourceOf is Resource for the requests and limits of a container. The container that the selector names is ignored.
//
// Upstream: pkg/api/v1/resource ExtractContainerResourceValue (v1.36).
func ResourceOf(resources *corev1.ResourceRequirements, from *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	divisor := from.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	kind, name, _ := strings.Cut(from.Resource, ".")
	amount := func(all corev1.ResourceList) *resource.Quantity {
		if q, ok := all[corev1.ResourceName(name)]; ok {
			return &q
		}
		return &resource.Quantity{}
	}
	var value *resource.Quantity
	switch kind {
	case "limits":
		value = amount(resources.Limits)
		if value.IsZero() {
			value = amount(allocatable)
		}
	case "requests":
		value = amount(resources.Requests)
	default:
		return "", fmt.Errorf("unsupported container resource : %v", from.Resource)
	}
	switch {
	case name == string(corev1.ResourceCPU):
		return ceil(value.MilliValue(), divisor.MilliValue()), nil
	case name == string(corev1.ResourceMemory), name == string(corev1.ResourceEphemeralStorage),
		strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		return ceil(value.Value(), divisor.Value()), nil
	default:
		return "", fmt.Errorf("unsupported container resource : %v", from.Resource)
	}
}

func ceil(value, divisor int64) string {
	return strconv.FormatInt(int64(math.Ceil(float64(value)/float64(divisor))), 10)
}

func resourcesOf(pod *corev1.Pod, container string) (corev1.ResourceRequirements, error) {
	for _, all := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range all {
			if all[i].Name == container {
				return all[i].Resources, nil
			}
		}
	}
	return corev1.ResourceRequirements{}, fmt.Errorf("container %s not found", container)
}
