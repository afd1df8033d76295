package quota

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Request is a write that may use resources.
type Request struct {
	Resource schema.GroupResource
	Object   metav1.Object
	Old      metav1.Object // nil: a creation
	Status   bool          // a write of /status: it is charged, and never refused
	Now      time.Time
}

// Concerns reports whether quotas are checked at a write.
//
// Upstream: k8s.io/apiserver/pkg/quota/v1/generic, pkg/quota/v1/evaluator/core Handles.
func (r *Request) Concerns() bool {
	switch obj := r.Object.(type) {
	case *corev1.PersistentVolumeClaim:
		return true
	case *corev1.Service, *resourcev1.ResourceClaim:
		return !r.Status
	case *corev1.Pod:
		old, _ := r.Old.(*corev1.Pod)
		return !r.Status && (old == nil || IsTerminating(old) != IsTerminating(obj))
	case *corev1.Event:
		return false
	}
	return r.Old == nil
}

// Charge returns what a quota has used after a request; nil if the request uses nothing of it. The
// error says why the request is refused.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota CheckRequest.
func Charge(q *corev1.ResourceQuota, r Request) (corev1.ResourceList, error) {
	limited := Resources(r.Resource, q.Status.Hard)
	if len(limited) == 0 {
		return nil, nil
	}
	in, err := InScopes(q, r.Object)
	if !in || err != nil {
		return nil, err
	}
	if pod, ok := r.Object.(*corev1.Pod); ok {
		if err := missing(pod, limited); err != nil {
			return nil, fmt.Errorf("failed quota: %s: %w", q.Name, err)
		}
	}
	for _, name := range limited {
		if _, ok := q.Status.Used[name]; !ok {
			return nil, fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, textOf(limited))
		}
	}
	usage := Usage(r.Resource, r.Object, r.Now)
	if err := negative(usage); err != nil {
		return nil, err
	}
	var before corev1.ResourceList
	if r.Old != nil {
		was, err := InScopes(q, r.Old)
		if err != nil {
			return nil, err
		}
		if was {
			before = Usage(r.Resource, r.Old, r.Now)
		}
	}
	requested := only(Growth(before, usage), names(q.Status.Hard))
	if len(requested) == 0 {
		return nil, nil
	}
	used := Add(Add(nil, q.Status.Used), requested)
	if r.Status {
		return used, nil
	}
	var exceeded []corev1.ResourceName
	for _, name := range names(requested) {
		if total := used[name]; total.Cmp(q.Status.Hard[name]) > 0 {
			exceeded = append(exceeded, name)
		}
	}
	if len(exceeded) > 0 {
		return nil, fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
			text(only(requested, exceeded)), text(only(q.Status.Used, exceeded)), text(only(q.Status.Hard, exceeded)))
	}
	return used, nil
}

// negative returns an error if a resource is negative.
func negative(usage corev1.ResourceList) error {
	var below []corev1.ResourceName
	for name, amount := range usage {
		if amount.Sign() < 0 {
			below = append(below, name)
		}
	}
	if len(below) == 0 {
		return nil
	}
	return fmt.Errorf("quota usage is negative for resource(s): %s", textOf(below))
}
