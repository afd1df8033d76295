package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// schemeName is the name of upstream's scheme in errors.
const schemeName = "pkg/runtime/scheme.go:111"

// versioned returns an object of this resource with its apiVersion and kind. The result is a
// shallow copy.
func (r ResourceClient) versioned(obj Object) Object {
	out := r.kind.shallow(obj)
	out.GetObjectKind().SetGroupVersionKind(r.GroupVersionKind())
	return out
}

// decode decodes the JSON of a patched object, and returns errors for unknown and duplicate fields.
func (r ResourceClient) decode(doc []byte) (Object, []error, error) {
	gvk, err := serializer.DefaultMetaFactory.Interpret(doc)
	if err != nil {
		return nil, nil, invalidPatch(string(doc), err.Error())
	}
	if r.kind.custom != nil {
		return r.decodeCustom(doc, *gvk)
	}
	want := r.GroupVersionKind()
	if gvk.Kind == "" {
		gvk.Kind = want.Kind
	}
	obj := r.New()
	switch {
	case *gvk == want:
	case gvk.Version == "":
		return obj, []error{errors.New(`unknown field "metadata"`)}, nil // upstream decodes it as an internal object
	default:
		return nil, nil, invalidPatch(string(doc), otherKind(doc, *gvk, want))
	}
	strict, err := kjson.UnmarshalStrict(doc, obj)
	if err != nil {
		return nil, nil, invalidPatch(string(doc), err.Error())
	}
	return obj, strict, nil
}

// otherKind returns why a document is not of the wanted kind.
func otherKind(doc []byte, gvk, want schema.GroupVersionKind) string {
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		return runtime.NewNotRegisteredErrForKind(schemeName, gvk).Error()
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, obj); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("converting (%s.%s) to (%s.%s): unknown conversion", gvk.Version, gvk.Kind,
		internalPackage(want.Group), want.Kind)
}

// internalPackage returns the Go package of upstream's internal types of a group.
func internalPackage(group string) string {
	if group == "" {
		return "core"
	}
	name, _, _ := strings.Cut(group, ".")
	return name
}

// decodeCustom is decode for custom resources.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver customresource_handler.go
// schemaCoercingDecoder.
func (r ResourceClient) decodeCustom(doc []byte, gvk schema.GroupVersionKind) (Object, []error, error) {
	if gvk.Kind == "" {
		return nil, nil, invalidPatch(string(doc), runtime.NewMissingKindErr(string(doc)).Error())
	}
	if gvk.GroupVersion().Empty() {
		return nil, nil, apierrors.NewInternalError(runtime.NewMissingVersionErr("object has no apiVersion field"))
	}
	content := map[string]any{}
	strict, err := kjson.UnmarshalStrict(doc, &content)
	if err != nil {
		return nil, nil, invalidPatch(string(doc), err.Error())
	}
	obj := &CustomObject{Content: content}
	obj.SetGroupVersionKind(gvk)
	unknown, err := decodeMeta(content["metadata"], &obj.ObjectMeta)
	if err != nil {
		return nil, nil, invalidPatch(string(doc), err.Error())
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(content, name)
	}
	if err := r.checkKind(obj.Name, gvk); err != nil {
		return nil, nil, err
	}
	strict = append(strict, unknown...)
	if f := r.kind.custom.UnknownFields; f != nil {
		for _, path := range f(obj) {
			strict = append(strict, fmt.Errorf("unknown field %q", path))
		}
	}
	return obj, strict, nil
}

// checkKind returns an error unless a custom object has the client's group, version and kind.
func (r ResourceClient) checkKind(name string, gvk schema.GroupVersionKind) error {
	want := r.GroupVersionKind()
	var errs field.ErrorList
	if gvk.Kind != want.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), gvk.Kind, "must be "+want.Kind))
	}
	if gvk.GroupVersion() != want.GroupVersion() {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), gvk.GroupVersion().String(),
			"must be "+want.GroupVersion().String()))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(gvk.GroupKind(), name, errs)
	}
	return nil
}

// decodeMeta decodes the metadata of a custom object, and returns errors for unknown fields.
func decodeMeta(from any, to *metav1.ObjectMeta) ([]error, error) {
	if from == nil {
		return nil, nil
	}
	data, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	strict, err := kjson.UnmarshalStrict(data, to)
	for i, e := range strict {
		strict[i] = errors.New(strings.Replace(e.Error(), `unknown field "`, `unknown field "metadata.`, 1))
	}
	return strict, err
}
