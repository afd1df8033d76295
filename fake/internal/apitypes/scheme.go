package apitypes

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// shared are the kinds of v1 with the Go types of v1beta1.
var shared = []string{
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyList", "MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBindingList",
}

// Registered returns the kind under which client-go's scheme has the Go type of a kind.
func Registered(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	if gvk.GroupVersion() == admissionv1.SchemeGroupVersion && slices.Contains(shared, gvk.Kind) {
		gvk.Version = admissionv1beta1.SchemeGroupVersion.Version
	}
	return gvk
}

// New returns an empty object of a kind.
func New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return scheme.Scheme.New(Registered(gvk))
}

// Types creates objects of kinds, and tells the kinds of objects. It is safe for concurrent use.
type Types struct{}

var (
	_ runtime.ObjectCreater = Types{}
	_ runtime.ObjectTyper   = Types{}
)

// New implements runtime.ObjectCreater.
func (Types) New(gvk schema.GroupVersionKind) (runtime.Object, error) { return New(gvk) }

// ObjectKinds implements runtime.ObjectTyper. The preferred kind is first.
func (Types) ObjectKinds(obj runtime.Object) (kinds []schema.GroupVersionKind, unversioned bool, err error) {
	kinds, unversioned, err = scheme.Scheme.ObjectKinds(obj)
	if err == nil && kinds[0].GroupVersion() == admissionv1beta1.SchemeGroupVersion && slices.Contains(shared, kinds[0].Kind) {
		v1 := kinds[0]
		v1.Version = admissionv1.SchemeGroupVersion.Version
		kinds = []schema.GroupVersionKind{v1, kinds[0]}
	}
	return kinds, unversioned, err
}

// Recognizes reports whether a kind has a Go type.
func (Types) Recognizes(gvk schema.GroupVersionKind) bool {
	return scheme.Scheme.Recognizes(Registered(gvk))
}
