package framework

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource is an amount of resources.
//
// Upstream: pkg/scheduler/framework Resource (v1.36).
type Resource struct {
	MilliCPU         int64
	Memory           int64 // bytes
	EphemeralStorage int64 // bytes
	Pods             int64
	Scalar           map[corev1.ResourceName]int64 // other resources; nil if there are none
}

// NewResource returns the amount of a list.
func NewResource(list corev1.ResourceList) Resource {
	var r Resource
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = quantity.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = quantity.Value()
		case corev1.ResourcePods:
			r.Pods = quantity.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = quantity.Value()
		default:
			if isScalar(name) {
				if r.Scalar == nil {
					r.Scalar = map[corev1.ResourceName]int64{}
				}
				r.Scalar[name] = quantity.Value()
			}
		}
	}
	return r
}

// plus returns the sum with n times another amount.
func (r Resource) plus(n int64, other Resource) Resource {
	r.MilliCPU += n * other.MilliCPU
	r.Memory += n * other.Memory
	r.EphemeralStorage += n * other.EphemeralStorage
	if len(other.Scalar) > 0 {
		r.Scalar = maps.Clone(r.Scalar)
		if r.Scalar == nil {
			r.Scalar = map[corev1.ResourceName]int64{}
		}
		for name, amount := range other.Scalar {
			r.Scalar[name] += n * amount
		}
	}
	return r
}

// isScalar reports whether the scheduler counts a resource that is not one of the well-known four:
// extended resources, huge pages, attachable volumes, and resources of kubernetes.io.
//
// Upstream: pkg/scheduler/util IsScalarResourceName (v1.36).
func isScalar(name corev1.ResourceName) bool {
	text := string(name)
	native := !strings.Contains(text, "/") || strings.Contains(text, corev1.ResourceDefaultNamespacePrefix)
	return !native && !strings.HasPrefix(text, corev1.DefaultResourceRequestsPrefix) ||
		strings.HasPrefix(text, corev1.ResourceHugePagesPrefix) || strings.Contains(text, corev1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(text, corev1.ResourceAttachableVolumesPrefix)
}

func newMilli(n int64) *resource.Quantity { return resource.NewMilliQuantity(n, resource.DecimalSI) }
func newBytes(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
