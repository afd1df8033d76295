package fake

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateConfiguration returns the errors in the expressions of an object of admissionregistration.k8s.io that will be
// stored; old is nil for a creation. A server without an Admitter compiles no expressions.
//
// Upstream: pkg/apis/admissionregistration/validation.
func (s *Server) validateConfiguration(k *kind, obj, old Object) field.ErrorList {
	if s.admitter == nil || k.gvk.Group != admissionv1.GroupName || k.custom != nil {
		return nil
	}
	if old == nil {
		return s.admitter.ValidateConfiguration(obj, nil)
	}
	return s.admitter.ValidateConfiguration(obj, old)
}
