package fake

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
)

// pods is the client of pods, with its subresources.
type pods struct {
	resource[*corev1.Pod, *corev1.PodList, *applycorev1.PodApplyConfiguration]
}

// Bind assigns a pod to a node, once. It returns Conflict if the pod has a node, is being deleted,
// or has another UID than the binding.
//
// Upstream: pkg/registry/core/pod/storage BindingREST.
func (p pods) Bind(ctx context.Context, binding *corev1.Binding, opts metav1.CreateOptions) error {
	if err := p.addressable(binding.Name); err != nil {
		return err
	}
	_, err := p.CreateSubresource(ctx, binding.Name, "binding", binding, opts)
	return err
}

// Evict deletes a pod if its disruption budget allows it. Otherwise it returns TooManyRequests, with
// the cause DisruptionBudget.
func (p pods) Evict(ctx context.Context, eviction *policyv1beta1.Eviction) error {
	return p.EvictV1beta1(ctx, eviction)
}

// EvictV1 is Evict.
func (p pods) EvictV1(ctx context.Context, eviction *policyv1.Eviction) error {
	return p.evict(ctx, eviction.Name, eviction.DeleteOptions)
}

// EvictV1beta1 is Evict.
func (p pods) EvictV1beta1(ctx context.Context, eviction *policyv1beta1.Eviction) error {
	return p.evict(ctx, eviction.Name, eviction.DeleteOptions)
}

func (p pods) evict(ctx context.Context, name string, opts *metav1.DeleteOptions) error {
	if err := p.addressable(name); err != nil {
		return err
	}
	_, err := p.CreateSubresource(ctx, name, "eviction", &policyv1.Eviction{DeleteOptions: opts},
		metav1.CreateOptions{})
	return err
}

// GetLogs returns a request that fails: pods have no logs.
func (p pods) GetLogs(name string, opts *corev1.PodLogOptions) *rest.Request {
	return unservedClient().CoreV1().Pods(p.namespace).GetLogs(name, opts)
}

// ProxyGet returns a request that fails: pods have no ports.
func (p pods) ProxyGet(scheme, name, port, path string, params map[string]string) rest.ResponseWrapper {
	return unservedClient().CoreV1().Pods(p.namespace).ProxyGet(scheme, name, port, path, params)
}

// UpdateEphemeralContainers adds ephemeral containers to a pod.
//
// Upstream: pkg/registry/core/pod/storage EphemeralContainersREST (v1.36).
func (p pods) UpdateEphemeralContainers(ctx context.Context, _ string, pod *corev1.Pod,
	opts metav1.UpdateOptions,
) (*corev1.Pod, error) {
	return p.update(ctx, pod, opts, "ephemeralcontainers")
}

// UpdateResize returns 404: the server lacks the subresource.
func (p pods) UpdateResize(ctx context.Context, _ string, pod *corev1.Pod,
	opts metav1.UpdateOptions,
) (*corev1.Pod, error) {
	return p.update(ctx, pod, opts, "resize")
}

// podActions are the actions on a pod.
var podActions = map[string]action{
	"binding":  {gvk: corev1.SchemeGroupVersion.WithKind("Binding"), run: bind},
	"eviction": {gvk: policyv1.SchemeGroupVersion.WithKind("Eviction"), run: evict},
}

// success returns the status of an action without another result.
func success() *metav1.Status {
	return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
}

// bind executes a binding.
func bind(s writer, namespace, name string, body runtime.Object, dryRun bool) (actionResult, error) {
	binding := body.(*corev1.Binding)
	if binding.Name != name {
		return actionResult{}, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	var errs field.ErrorList
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), kind, []string{"Node", "<empty>"}))
	}
	if binding.Target.Name == "" {
		errs = append(errs, field.Required(field.NewPath("target", "name"), ""))
	}
	if len(errs) > 0 {
		return actionResult{}, internalError(errs.ToAggregate().Error())
	}
	if binding.Namespace != "" && binding.Namespace != namespace {
		return actionResult{}, apierrors.NewBadRequest(namespaceMsg)
	}
	if binding.Target.Kind == "Node" {
		binding = binding.DeepCopy()
		binding.Labels = s.withTopology(binding.Labels, binding.Target.Name)
	}
	done, err := s.update(s.table("pods").kind, change{
		namespace: namespace, name: name, dryRun: dryRun, subresource: bindingSubresource,
		applier: applyFunc(func(old Object) (Object, error) {
			pod := old.(*corev1.Pod).DeepCopy()
			if err := bindPod(s.timestamp(), pod, binding); err != nil {
				return nil, err
			}
			return pod, nil
		}),
	})
	return actionResult{writeResult: done, answer: success()}, err
}

func bindPod(now metav1.Time, pod *corev1.Pod, binding *corev1.Binding) error {
	conflict := func(err error) error {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), pod.Name, err)
	}
	presumed := func(name string, want, actual any) error {
		err := storageError("pods", key(pod.Namespace, pod.Name), preconditionError(name, want, actual))
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, err)
	}
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		return presumed("UID", binding.UID, pod.UID)
	case binding.ResourceVersion != "" && binding.ResourceVersion != pod.ResourceVersion:
		return presumed("ResourceVersion", binding.ResourceVersion, pod.ResourceVersion)
	case pod.DeletionTimestamp != nil:
		return conflict(fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name))
	case pod.Spec.NodeName != "":
		return conflict(fmt.Errorf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName))
	case len(pod.Spec.SchedulingGates) > 0:
		return conflict(fmt.Errorf("pod %s has non-empty .spec.schedulingGates", pod.Name))
	}
	pod.Spec.NodeName = binding.Target.Name
	pod.Status.NominatedNodeName = ""
	if len(binding.Annotations) > 0 && pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, binding.Annotations)
	if len(binding.Labels) > 0 && pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, binding.Labels)
	setCondition(pod, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: now,
	})
	return nil
}

// setCondition sets a condition of a pod. The transition time stays if the status does.
//
// Upstream: pkg/api/pod UpdatePodCondition.
func setCondition(pod *corev1.Pod, c corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		if old := &pod.Status.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}
