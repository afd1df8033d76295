package disruption

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// sorted sorts objects of one namespace by name.
func sorted[O metav1.Object](objects []O) []O {
	return slices.SortedFunc(slices.Values(objects), func(a, b O) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// expected returns how many pods there should be and how many of them should be healthy. unmanaged
// reports whether some have no controller, which leaves them out.
//
// Upstream: pkg/controller/disruption DisruptionController.getExpectedPodCount.
func (c *controller) expected(ctx context.Context, budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (expected, desired int32, unmanaged bool, err error) {
	if least := budget.Spec.MinAvailable; budget.Spec.MaxUnavailable == nil && (least == nil || least.Type == intstr.Int) {
		if least == nil {
			return 0, 0, false, nil
		}
		return int32(len(pods)), least.IntVal, false, nil
	}
	if expected, unmanaged, err = c.scale(ctx, pods); err != nil {
		return 0, 0, false, err
	}
	share, err := intstr.GetScaledValueFromIntOrPercent(cmp.Or(budget.Spec.MaxUnavailable, budget.Spec.MinAvailable), int(expected), true)
	if err != nil {
		return 0, 0, false, err
	}
	if budget.Spec.MaxUnavailable != nil {
		share = max(0, int(expected)-share)
	}
	return expected, int32(share), unmanaged, nil
}

// scale returns the sum of the scales of the controllers of pods.
//
// Upstream: pkg/controller/disruption DisruptionController.getExpectedScale.
func (c *controller) scale(ctx context.Context, pods []*corev1.Pod) (sum int32, unmanaged bool, err error) {
	known := map[types.UID]bool{}
	for _, pod := range pods {
		ref := metav1.GetControllerOf(pod)
		if ref == nil {
			unmanaged = true
			continue
		}
		if known[ref.UID] {
			continue
		}
		found, err := c.find(ctx, ref, pod.Namespace)
		if err != nil {
			return 0, false, err
		}
		if found == nil {
			return 0, false, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		known[ref.UID] = true
		if found.uid == ref.UID || !known[found.uid] {
			sum += found.replicas
		}
		known[found.uid] = true
	}
	return sum, unmanaged, nil
}

// scaled is a controller of pods with its scale.
type scaled struct {
	uid      types.UID
	replicas int32
}

// find returns the controller that a reference of a pod leads to: for a ReplicaSet of a Deployment
// the Deployment. It returns nil if it does not exist.
//
// Upstream: pkg/controller/disruption DisruptionController.finders.
func (c *controller) find(ctx context.Context, ref *metav1.OwnerReference, namespace string) (*scaled, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	switch kind := gv.WithKind(ref.Kind).GroupKind(); kind.String() {
	case "ReplicationController":
		if rc, err := c.controllers.ReplicationControllers(namespace).Get(ref.Name); err == nil && rc.UID == ref.UID {
			return &scaled{rc.UID, ptr.Deref(rc.Spec.Replicas, 1)}, nil
		}
	case "ReplicaSet.apps", "ReplicaSet.extensions":
		if found := c.findReplicaSet(ref, namespace); found != nil {
			return found, nil
		}
	case "StatefulSet.apps":
		if set, err := c.sets.StatefulSets(namespace).Get(ref.Name); err == nil && set.UID == ref.UID {
			return &scaled{set.UID, ptr.Deref(set.Spec.Replicas, 1)}, nil
		}
	}
	return c.findScale(ctx, ref, gv, namespace)
}

// findReplicaSet returns a ReplicaSet or its Deployment; nil if the caches lack it.
func (c *controller) findReplicaSet(ref *metav1.OwnerReference, namespace string) *scaled {
	rs, err := c.replicaSets.ReplicaSets(namespace).Get(ref.Name)
	if err != nil || rs.UID != ref.UID {
		return nil
	}
	owner := metav1.GetControllerOf(rs)
	if owner == nil || owner.Kind != "Deployment" {
		return &scaled{rs.UID, ptr.Deref(rs.Spec.Replicas, 1)}
	}
	d, err := c.deployments.Deployments(namespace).Get(owner.Name)
	if err != nil || d.UID != owner.UID {
		return nil
	}
	return &scaled{d.UID, ptr.Deref(d.Spec.Replicas, 1)}
}

// findScale reads the scale of any other controller.
//
// Upstream: pkg/controller/disruption DisruptionController.getScaleController.
func (c *controller) findScale(ctx context.Context, ref *metav1.OwnerReference, gv schema.GroupVersion, namespace string) (*scaled, error) {
	resource, err := c.resourceOf(gv.WithKind(ref.Kind))
	if err != nil {
		return nil, err
	}
	client := c.cfg.Dynamic.Resource(resource).Namespace(namespace)
	scale, err := client.Get(ctx, ref.Name, metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) {
		if _, err := client.Get(ctx, ref.Name, metav1.GetOptions{}); err == nil {
			return nil, fmt.Errorf("%s does not implement the scale subresource", resource.GroupResource())
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
		return nil, nil
	}
	if err != nil || scale.GetUID() != ref.UID {
		return nil, err
	}
	replicas, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	return &scaled{scale.GetUID(), int32(replicas)}, err
}

// resourceOf returns the resource that serves a kind.
func (c *controller) resourceOf(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	served, err := c.cfg.Discover()
	for _, list := range served {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil || gv.Group != kind.Group {
			continue
		}
		for i := range list.APIResources {
			if r := &list.APIResources[i]; r.Kind == kind.Kind && !strings.Contains(r.Name, "/") {
				return gv.WithResource(r.Name), nil
			}
		}
	}
	if err == nil {
		err = &apimeta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	return schema.GroupVersionResource{}, err
}
