package fake

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file converts objects to and from the form of dynamic clients, without encoding.

// untyped returns an object as a dynamic client has it. It shares only immutable parts.
func untyped(obj runtime.Object, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	if c, ok := obj.(*CustomObject); ok {
		return c.DeepCopyObject().(*CustomObject).in(gvk).Unstructured()
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("%s as a map: %w", gvk.Kind, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// in returns an object of a custom resource with its apiVersion and kind set.
func (c *CustomObject) in(gvk schema.GroupVersionKind) *CustomObject {
	c.APIVersion, c.Kind = gvk.ToAPIVersionAndKind()
	return c
}

// typed converts a sent object to the kind's type. The argument becomes part of the result.
func (k *kind) typed(u *unstructured.Unstructured, validation string) (Object, error) {
	if k.custom != nil {
		return k.customFrom(u, validation)
	}
	obj := k.empty()
	return obj, decode(u, obj, k.gvk.Kind, validation)
}

// decode converts a sent object to a Go type.
//
// Differs: errors about a field are the converter's, not those of a JSON decoder.
func decode(u *unstructured.Unstructured, into runtime.Object, kind, validation string) error {
	strict := validation == metav1.FieldValidationStrict
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, strict); err != nil {
		return unconvertible(u.GroupVersionKind(), kind, err)
	}
	return nil
}

// unconvertible returns the error about a body of another type.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers transformDecodeError.
func unconvertible(got schema.GroupVersionKind, want string, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind,
		got.Version, want, err))
}

// customFrom converts an object of a custom resource. The content is shared.
func (k *kind) customFrom(u *unstructured.Unstructured, validation string) (*CustomObject, error) {
	c := (&CustomObject{}).in(u.GroupVersionKind())
	if head, ok := u.Object["metadata"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(head, &c.ObjectMeta); err != nil {
			return nil, unconvertible(u.GroupVersionKind(), k.gvk.Kind, err)
		}
	}
	c.Content = u.Object
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(c.Content, name)
	}
	if validation != metav1.FieldValidationStrict || k.custom.UnknownFields == nil {
		return c, nil
	}
	if paths := k.custom.UnknownFields(c); len(paths) > 0 {
		errs := make([]error, len(paths))
		for i, path := range paths {
			errs[i] = fmt.Errorf("unknown field %q", strings.TrimPrefix(path, "."))
		}
		return nil, apierrors.NewBadRequest(runtime.NewStrictDecodingError(errs).Error())
	}
	return c, nil
}

// untypedList returns a list as a dynamic client has it.
func (r ResourceClient) untypedList(all ObjectList) (*unstructured.UnstructuredList, error) {
	gvk := r.GroupVersionKind()
	out := &unstructured.UnstructuredList{
		Object: map[string]any{},
		Items:  make([]unstructured.Unstructured, len(all.Objects)),
	}
	out.SetGroupVersionKind(gvk.GroupVersion().WithKind(r.kind.listKind()))
	out.SetResourceVersion(all.ResourceVersion)
	out.SetContinue(all.Continue)
	out.SetRemainingItemCount(all.RemainingItemCount)
	for i, obj := range all.Objects {
		u, err := untyped(obj, gvk)
		if err != nil {
			return nil, err
		}
		out.Items[i] = *u
	}
	return out, nil
}

// listKind returns the kind of the resource's lists.
func (k *kind) listKind() string {
	if k.custom != nil && k.custom.ListKind != "" {
		return k.custom.ListKind
	}
	return k.gvk.Kind + "List"
}

// versionMismatch returns the error about a body of another version than the request's.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers create.go.
func versionMismatch(got, want schema.GroupVersion) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got, want))
}

// partial returns a copy of an object's metadata.
func partial(obj Object) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	metaOf(obj).DeepCopyInto(&out.ObjectMeta)
	return out
}
