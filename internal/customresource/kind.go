package customresource

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Object is a pointer to a Go type of a custom resource.
type Object[T any] interface {
	*T
	metav1.Object
}

// A Kind is a custom resource with its Go type.
type Kind[T any, P Object[T]] struct {
	Resource schema.GroupVersionResource
	Name     string // of the kind
}

// CommitName returns the name of the resource in a fake.Commit and in a fake.Filter.
func (k Kind[T, P]) CommitName() string { return k.Resource.GroupResource().String() }

// Parse returns an object of an informer, of a dynamic client, or of the store of package fake, such as
// that of a fake.Commit. It fails if the type cannot hold it.
func (k Kind[T, P]) Parse(obj any) (P, error) {
	if stored, ok := obj.(interface {
		Unstructured() (*unstructured.Unstructured, error)
	}); ok {
		u, err := stored.Unstructured()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
		obj = u
	}
	u, ok := obj.(runtime.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s: object of type %T is not unstructured", k.Name, obj)
	}
	typed := P(new(T))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), typed); err != nil {
		return nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	return typed, nil
}

// Unstructured returns the object as the API has it. Recorders of events take it, too.
func (k Kind[T, P]) Unstructured(obj P) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(fmt.Sprintf("customresource: write %s: %v", k.Name, err)) // a type without JSON form
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Name))
	return u
}
