package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metajson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake"
)

// decodeCustom decodes the request's body into a custom object. Fields that are not in the schema
// are reported as errors or warnings; pruning removes them later.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver schemaCoercingDecoder.
func (r *request) decodeCustom(
	media string, body []byte, custom *fake.CustomKind, want schema.GroupVersionKind, directive string,
) (*fake.CustomObject, error) {
	data := body
	var strict []error
	switch media {
	case mediaYAML:
		var err error
		if data, err = yaml.YAMLToJSON(body); err != nil {
			return nil, decodeError(err, nil, want.Kind, body)
		}
		if _, err := yaml.YAMLToJSONStrict(body); err != nil {
			strict = append(strict, err)
		}
	case mediaProtobuf:
		if custom.GoTypes == nil {
			return nil, errBody(mediaJSON, mediaYAML)
		}
		var err error
		if data, err = jsonOfProtobuf(body, custom, want); err != nil {
			return nil, err
		}
	}
	gvk, err := metajson.DefaultMetaFactory.Interpret(data)
	switch {
	case err != nil:
		return nil, decodeError(err, nil, want.Kind, body)
	case gvk.Kind == "":
		return nil, decodeError(runtime.NewMissingKindErr(string(data)), nil, want.Kind, body)
	}
	obj, found, err := readCustom(data)
	if err != nil {
		return nil, decodeError(err, gvk, want.Kind, body)
	}
	obj.APIVersion, obj.Kind = gvk.ToAPIVersionAndKind()
	strict = append(strict, found...)
	if gv := want.GroupVersion(); gvk.GroupVersion() == gv && custom.UnknownFields != nil {
		for _, path := range custom.UnknownFields(obj) {
			strict = append(strict, fmt.Errorf("unknown field %q", path))
		}
	}
	if err := r.applyFieldValidation(strict, directive); err != nil {
		return nil, decodeError(err, gvk, want.Kind, body)
	}
	return obj, checkCustomKind(obj, *gvk, want)
}

// applyFieldValidation ignores, warns of or returns the errors of strict decoding, as the directive
// of field validation says.
func (r *request) applyFieldValidation(strict []error, directive string) error {
	switch {
	case len(strict) == 0 || directive == metav1.FieldValidationIgnore:
		return nil
	case directive == metav1.FieldValidationStrict:
		return runtime.NewStrictDecodingError(strict)
	}
	r.warn(strictWarnings(strict)...)
	return nil
}

// readCustom decodes an object. strict holds its duplicate fields and the unknown fields of its
// metadata.
func readCustom(data []byte) (obj *fake.CustomObject, strict []error, err error) {
	content := map[string]any{}
	if strict, err = kjson.UnmarshalStrict(data, &content, kjson.DisallowDuplicateFields); err != nil {
		return nil, nil, err
	}
	obj = &fake.CustomObject{Content: content}
	if raw, ok := content["metadata"]; ok {
		text, err := json.Marshal(raw)
		if err != nil {
			return nil, nil, err
		}
		unknown, err := kjson.UnmarshalStrict(text, &obj.ObjectMeta, kjson.DisallowUnknownFields)
		if err != nil {
			return nil, nil, err
		}
		for _, err := range unknown {
			var at kjson.FieldError
			if errors.As(err, &at) {
				at.SetFieldPath("metadata." + at.FieldPath())
			}
			strict = append(strict, err)
		}
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(content, name)
	}
	return obj, strict, nil
}

// checkCustomKind returns an error unless the object has the version and the kind of the resource.
func checkCustomKind(obj *fake.CustomObject, got, want schema.GroupVersionKind) error {
	if got.GroupVersion() != want.GroupVersion() {
		return versionError(got.GroupVersion(), want.GroupVersion())
	}
	if got.Kind != want.Kind {
		return apierrors.NewInvalid(got.GroupKind(), obj.Name, field.ErrorList{
			field.Invalid(field.NewPath("kind"), got.Kind, "must be "+want.Kind),
		})
	}
	return nil
}
