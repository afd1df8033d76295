package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podObjects reads what the environment of a pod's containers refers to.
//
// Differs: upstream's kubelet watches config maps, secrets and services.
type podObjects struct {
	ctx     context.Context //nolint:containedctx // for one environment
	kubelet *Kubelet
	pod     *corev1.Pod
}

func (o podObjects) configMap(name string) (map[string]string, error) {
	m, err := o.kubelet.cfg.Client.CoreV1().ConfigMaps(o.pod.Namespace).Get(o.ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missing(err, "configmap", name)
	}
	return m.Data, nil
}

func (o podObjects) secret(name string) (map[string]string, error) {
	s, err := o.kubelet.cfg.Client.CoreV1().Secrets(o.pod.Namespace).Get(o.ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missing(err, "secret", name)
	}
	data := make(map[string]string, len(s.Data))
	for key, value := range s.Data {
		data[key] = string(value)
	}
	return data, nil
}

func (o podObjects) services() ([]*corev1.Service, error) { return o.kubelet.servicesFor(o.ctx, o.pod) }

func (o podObjects) addresses() (node, pod string) {
	if !o.kubelet.cfg.Address.IsValid() {
		return "", ""
	}
	return o.kubelet.cfg.Address.String(), o.kubelet.podAddress(o.pod)
}

func (o podObjects) allocatable() corev1.ResourceList {
	if node, err := o.kubelet.nodes.Get(o.kubelet.cfg.Node); err == nil {
		return node.Status.Allocatable
	}
	return nodeResources
}

// missing returns the error of an object that does not exist with the text of the kubelet's cache.
//
// Upstream: pkg/kubelet/util/manager objectCache.Get (v1.36).
func missing(err error, kind, name string) error {
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(corev1.Resource(kind), name)
	}
	return fmt.Errorf("get %s: %w", kind, err)
}
