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

// Objects as dynamic clients have them, made without a text in between.

// untyped gives an object as a dynamic client has it. It shares nothing that can be changed.
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

// in says of an object of a custom resource which version it is in.
func (c *CustomObject) in(gvk schema.GroupVersionKind) *CustomObject {
	c.APIVersion, c.Kind = gvk.ToAPIVersionAndKind()
	return c
}

// typed reads an object of the kind from what a dynamic client sent, which becomes the object's.
func (k *kind) typed(u *unstructured.Unstructured, validation string) (Object, error) {
	if k.custom != nil {
		return k.customFrom(u, validation)
	}
	obj := k.empty()
	return obj, decode(u, obj, k.gvk.Kind, validation)
}

// decode reads what a dynamic client sent into an object of a Go type.
//
// Differs: what is wrong with a field is said in the words of the converter, not in those of a decoder of JSON.
func decode(u *unstructured.Unstructured, into runtime.Object, kind, validation string) error {
	strict := validation == metav1.FieldValidationStrict
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, strict); err != nil {
		return unconvertible(u.GroupVersionKind(), kind, err)
	}
	return nil
}

// unconvertible is the answer to a body that does not hold what it should.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers transformDecodeError.
func unconvertible(is schema.GroupVersionKind, wanted string, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", is.Kind, is.Version, wanted, err))
}

// customFrom reads an object of a custom resource, of which the content stays as it is.
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

// untypedList gives a list as a dynamic client has it.
func (r ResourceClient) untypedList(all ObjectList) (*unstructured.UnstructuredList, error) {
	gvk := r.GroupVersionKind()
	out := &unstructured.UnstructuredList{Object: map[string]any{}, Items: make([]unstructured.Unstructured, len(all.Objects))}
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

// listKind is the name of the kind of the resource's lists.
func (k *kind) listKind() string {
	if k.custom != nil && k.custom.ListKind != "" {
		return k.custom.ListKind
	}
	return k.gvk.Kind + "List"
}

// versionMismatch is the answer to a body of another version than the request's.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers create.go.
func versionMismatch(is, wanted schema.GroupVersion) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", is, wanted))
}

// partial gives an object's metadata by itself. It shares nothing.
func partial(obj Object) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	metaOf(obj).DeepCopyInto(&out.ObjectMeta)
	return out
}
