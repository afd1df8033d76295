package fake

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// hasGoTypes reports whether the kind has a Go type: it is built in, or its CustomKind has GoTypes.
func (k *kind) hasGoTypes() bool { return k.custom == nil || k.custom.GoTypes != nil }

// newGoType returns an empty object of the resource's Go type.
func (r ResourceClient) newGoType() runtime.Object {
	if r.kind.custom == nil {
		return r.New()
	}
	obj, _ := r.kind.custom.GoTypes()
	return obj
}

// document returns a copy of an object as a map, with its apiVersion and kind.
func (r ResourceClient) document(obj Object) (map[string]any, error) {
	versioned := r.versioned(obj)
	c, ok := versioned.(*CustomObject)
	if !ok {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
	}
	u, err := c.DeepCopyObject().(*CustomObject).Unstructured()
	if err != nil {
		return nil, err
	}
	return u.Object, nil
}

// fromGoType returns an object of the resource's Go type as the resource's objects are.
func (r ResourceClient) fromGoType(typed runtime.Object) (Object, error) {
	if obj, ok := typed.(Object); ok && r.kind.custom == nil {
		return obj, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, internalError(err.Error())
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(r.GroupVersionKind())
	return objectOf(u)
}
