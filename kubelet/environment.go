package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/fieldpath"
)

// variables are environment variables, in the order of their definition.
type variables struct {
	names  []string
	values map[string]string
	links  *variables // of services, which the others replace; nil: none
}

func (v *variables) set(name, value string) {
	if _, defined := v.values[name]; !defined {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

// list returns the variables as NAME=VALUE.
func (v *variables) list() []string {
	all := make([]string, len(v.names))
	for i, name := range v.names {
		all[i] = name + "=" + v.values[name]
	}
	if v.links != nil {
		for _, name := range v.links.names {
			if _, defined := v.values[name]; !defined {
				all = append(all, name+"="+v.links.values[name])
			}
		}
	}
	return all
}

// lookup returns the value of a variable in a text; an unknown one stays as it is.
func (v *variables) lookup(name string) string {
	if value, ok := v.values[name]; ok {
		return value
	}
	if v.links != nil {
		return v.links.lookup(name)
	}
	return "$(" + name + ")"
}

// An environmentSource reads what an environment refers to besides the pod. nil: that is unknown, and variables of it have
// no value.
type environmentSource interface {
	configMap(name string) (map[string]string, error)
	secret(name string) (map[string]string, error)
	services() ([]*corev1.Service, error) // that the pod sees
	addresses() (node, pod string)
	allocatable() corev1.ResourceList // of the node
}

// environment returns the environment variables of a container. A value may refer to earlier variables, to those of services
// or to a field of the pod.
//
// Differs: variables of files have no value.
//
// Upstream: pkg/kubelet makeEnvironmentVariables (v1.36).
func environment(pod *corev1.Pod, c *corev1.Container, source environmentSource) (*variables, error) {
	known := &variables{values: map[string]string{}}
	if source != nil {
		services, err := source.services()
		if err != nil {
			return nil, err
		}
		known.links = serviceVariables(services)
		for i := range c.EnvFrom {
			if err := addObject(known, source, &c.EnvFrom[i]); err != nil {
				return nil, err
			}
		}
	}
	for i := range c.Env {
		variable := &c.Env[i]
		value := ""
		switch from := variable.ValueFrom; {
		case variable.Value != "":
			value = expand(variable.Value, known.lookup)
		case from == nil:
		case from.FieldRef != nil:
			value = podField(pod, from.FieldRef.FieldPath, source)
		case source != nil && from.ResourceFieldRef != nil:
			var err error
			if value, err = resourceField(pod, c, from.ResourceFieldRef, source.allocatable()); err != nil {
				return nil, err
			}
		case source != nil:
			var defined bool
			var err error
			if value, defined, err = keyOf(pod, source, from); err != nil {
				return nil, err
			} else if !defined {
				continue
			}
		}
		known.set(variable.Name, value)
	}
	return known, nil
}

// addObject adds the entries of a config map or secret.
func addObject(to *variables, source environmentSource, from *corev1.EnvFromSource) error {
	var data map[string]string
	var err error
	var optional *bool
	switch {
	case from.ConfigMapRef != nil:
		optional = from.ConfigMapRef.Optional
		data, err = source.configMap(from.ConfigMapRef.Name)
	case from.SecretRef != nil:
		optional = from.SecretRef.Optional
		data, err = source.secret(from.SecretRef.Name)
	}
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		to.set(from.Prefix+name, data[name])
	}
	return nil
}

// keyOf returns the value of a key of a config map or secret. It is not defined if the key is optional and
// missing.
func keyOf(pod *corev1.Pod, source environmentSource, from *corev1.EnvVarSource) (value string, defined bool, err error) {
	var data map[string]string
	var kind, name, key string
	var optional *bool
	switch {
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		kind, name, key, optional = "ConfigMap", ref.Name, ref.Key, ref.Optional
		data, err = source.configMap(name)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		kind, name, key, optional = "Secret", ref.Name, ref.Key, ref.Optional
		data, err = source.secret(name)
	default:
		return "", true, nil
	}
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return "", false, err
	}
	value, defined = data[key]
	switch {
	case defined || ptr.Deref(optional, false):
		return value, defined, nil
	case missing:
		return "", false, err
	default:
		return "", false, fmt.Errorf("couldn't find key %v in %s %v/%v", key, kind, pod.Namespace, name)
	}
}

// resourceField returns a request or limit of a container; c is the one whose environment refers to it.
//
// Upstream: pkg/kubelet containerResourceRuntimeValue (v1.36).
func resourceField(pod *corev1.Pod, c *corev1.Container, from *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	if from.ContainerName == "" {
		return fieldpath.ResourceOf(&c.Resources, from, allocatable)
	}
	return fieldpath.Resource(pod, from, allocatable)
}

// podField returns the downward API field of a pod at a path; "" for an unknown path.
//
// Upstream: pkg/kubelet podFieldSelectorRuntimeValue, pkg/fieldpath ExtractFieldPathAsString
// (v1.36).
func podField(pod *corev1.Pod, path string, source environmentSource) string {
	if strings.HasPrefix(path, "status.") && source != nil {
		switch node, own := source.addresses(); path {
		case "status.hostIP", "status.hostIPs":
			return node
		case "status.podIP", "status.podIPs":
			return own
		}
	}
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
