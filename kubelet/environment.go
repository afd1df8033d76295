package kubelet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// environment returns the environment variables of a container as far as its pod defines them. A
// value may refer to earlier variables or to a field of the pod.
//
// Differs: envFrom, services, config maps, secrets, files, resources and addresses are unknown;
// such variables have no value.
//
// Upstream: pkg/kubelet makeEnvironmentVariables (v1.36).
func environment(pod *corev1.Pod, c *corev1.Container) map[string]string {
	known := map[string]string{}
	for i := range c.Env {
		variable := &c.Env[i]
		value := ""
		switch from := variable.ValueFrom; {
		case variable.Value != "":
			value = expand(variable.Value, func(name string) string {
				if value, ok := known[name]; ok {
					return value
				}
				return "$(" + name + ")"
			})
		case from != nil && from.FieldRef != nil:
			value = podField(pod, from.FieldRef.FieldPath)
		}
		known[variable.Name] = value
	}
	return known
}

// podField returns the downward API field of a pod at a path; "" for an unknown path.
//
// Upstream: pkg/kubelet podFieldSelectorRuntimeValue, pkg/fieldpath ExtractFieldPathAsString
// (v1.36).
func podField(pod *corev1.Pod, path string) string {
	switch field, key, _ := strings.Cut(strings.TrimSuffix(path, "']"), "['"); field {
	case "metadata.name":
		return pod.Name
	case "metadata.namespace":
		return pod.Namespace
	case "metadata.uid":
		return string(pod.UID)
	case "metadata.labels":
		return pod.Labels[key]
	case "metadata.annotations":
		return pod.Annotations[key]
	case "spec.nodeName":
		return pod.Spec.NodeName
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName
	default:
		return ""
	}
}

// expandSubPath returns the expansion of a subPathExpr. The error names the variables without a
// value.
//
// Upstream: pkg/kubelet/container ExpandContainerVolumeMounts (v1.36).
func expandSubPath(expression string, variables map[string]string) (string, error) {
	missing := sets.New[string]()
	path := expand(expression, func(name string) string {
		if variables[name] == "" {
			missing.Insert(name)
		}
		return variables[name]
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("missing value for %s", strings.Join(sets.List(missing), ", "))
	}
	return path, nil
}

// expand replaces each $(NAME) by its value and each $$ by one $. Any other $ stays as it is.
//
// Upstream: third_party/forked/golang/expansion Expand (v1.36).
func expand(text string, value func(name string) string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		switch {
		case strings.HasPrefix(after, "$"):
			b.WriteString("$")
			text = after[1:]
		case strings.HasPrefix(after, "(") && closed:
			b.WriteString(value(name))
			text = rest
		default:
			b.WriteString("$")
			text = after
		}
	}
}
