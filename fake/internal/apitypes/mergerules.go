package apitypes

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// MergeRules returns the merge rules of the kinds in k8s.io/api. They are parsed once, at first use.
var MergeRules = sync.OnceValue(func() managedfields.TypeConverter {
	return sharedTypes{applyconfigurations.NewTypeConverter(scheme.Scheme)}
})

// sharedTypes converts objects of kinds that share Go types under the kinds that client-go's scheme has.
type sharedTypes struct{ managedfields.TypeConverter }

// ObjectToTyped implements managedfields.TypeConverter.
func (t sharedTypes) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	as := Registered(gvk)
	if as == gvk {
		return t.TypeConverter.ObjectToTyped(obj, opts...)
	}
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(as)
	return t.TypeConverter.ObjectToTyped(obj, opts...)
}
