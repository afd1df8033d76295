package apiserver

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

const (
	schemeName = "pkg/runtime/scheme.go:111" // the name of the real server's scheme in messages

	namespaceMsg = "the namespace of the provided object does not match the namespace sent on the request"
)

// decodeObject decodes the request's body, if possible into into. Use the object that it returns.
// Findings of field validation become an error or warnings, as the directive says.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers createHandler, UpdateResource,
// transformDecodeError.
func (r *request) decodeObject(
	media string, body []byte, into runtime.Object, want schema.GroupVersionKind, directive string,
) (runtime.Object, error) {
	obj, gvk, err := r.h.codecs.decoder(media, directive != metav1.FieldValidationIgnore).Decode(body, &want, into)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && obj != nil && directive != metav1.FieldValidationStrict {
		r.warn(strictWarnings(strict.Errors())...)
		err = nil
	}
	if err == nil && gvk.GroupKind() != want.GroupKind() && !sameKind(*gvk, want) {
		err = fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", gvk.Version, gvk.Kind,
			internalPackage(want.Group), want.Kind)
	}
	if err != nil {
		return nil, decodeError(err, gvk, want.Kind, body)
	}
	return obj, nil
}

// confidentialKinds are kinds of whose bodies no part is in an error.
var confidentialKinds = []string{"Secret", "TokenReview"}

// scalar matches a value in an error of the YAML decoder.
var scalar = regexp.MustCompile("`[^`]*`")

// decodeError returns the error for a body that cannot be decoded.
//
// Differs: of a Secret and a TokenReview it does not show the beginning of the body, which would be in the audit log.
func decodeError(err error, gvk *schema.GroupVersionKind, want string, body []byte) error {
	known := gvk != nil && gvk.Kind != ""
	if known && runtime.IsNotRegisteredError(err) {
		err = runtime.NewNotRegisteredErrForKind(schemeName, *gvk)
	}
	beginning := summary(body)
	if slices.Contains(confidentialKinds, want) {
		beginning = "<contents redacted>"
		err = errors.New(scalar.ReplaceAllString(err.Error(), "`<contents redacted>`"))
	}
	if known {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind,
			gvk.Version, want, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)",
		want, err, beginning))
}

// versionError returns the error for a body whose API version is not that of the request.
func versionError(got, want schema.GroupVersion) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got, want))
}

// sameKind reports whether two kinds are versions of the same kind. The two groups of Event are.
func sameKind(a, b schema.GroupVersionKind) bool {
	return a.Kind == b.Kind && internalPackage(a.Group) == internalPackage(b.Group)
}

// internalPackage returns the name of the real server's package of internal types of a group.
func internalPackage(group string) string {
	switch group {
	case "", "events.k8s.io":
		return "core"
	}
	first, _, _ := strings.Cut(group, ".")
	return first
}

// strictWarnings returns the warnings for the errors of strict decoding. The YAML decoder joins
// several in one error.
func strictWarnings(errs []error) []string {
	var texts []string
	for _, err := range errs {
		text := err.Error()
		for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: unmarshal errors:\n"} {
			text = strings.TrimPrefix(text, prefix)
		}
		for line := range strings.SplitSeq(text, "\n") {
			texts = append(texts, strings.TrimSpace(line))
		}
	}
	return texts
}

// summary returns the beginning of a body, for an error message.
func summary(body []byte) string {
	const most = 30
	text := string(body)
	switch {
	case len(body) == 0:
		return "<empty>"
	case body[0] != '{':
		text = hex.EncodeToString(body[:min(len(body), most)])
	case len(body) > most:
		text = text[:most]
	}
	if len(body) > most {
		text += " ..."
	}
	return text
}

// decodeDeleteOptions decodes DeleteOptions, which exist in every group.
func decodeDeleteOptions(media string, body []byte, into *metav1.DeleteOptions) error {
	if media == mediaProtobuf {
		return decodeProtobufDeleteOptions(body, into)
	}
	if media == mediaYAML {
		var err error
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return err
		}
	}
	gvk, err := json.DefaultMetaFactory.Interpret(body)
	if err != nil {
		return err
	}
	if err := checkDeleteOptions(*gvk); err != nil {
		return err
	}
	return utiljson.Unmarshal(body, into)
}

func decodeProtobufDeleteOptions(body []byte, into *metav1.DeleteOptions) error {
	raw, ok := strings.CutPrefix(string(body), protobufPrefix)
	if !ok {
		return fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v",
			[]byte(protobufPrefix))
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal([]byte(raw)); err != nil {
		return err
	}
	if err := checkDeleteOptions(schema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind)); err != nil {
		return err
	}
	return into.Unmarshal(unknown.Raw)
}

func checkDeleteOptions(gvk schema.GroupVersionKind) error {
	if gvk.Kind != "" && gvk.Kind != "DeleteOptions" {
		return runtime.NewNotRegisteredErrForKind(schemeName, gvk)
	}
	return nil
}

var errNoName = errors.New("name must be provided")

// checkName returns an error unless the object has the name in the path.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers checkName.
func (t target) checkName(obj metav1.Object) error {
	switch name := obj.GetName(); {
	case name == "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: %v",
			t.name, errNoName))
	case name != t.name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, t.name))
	}
	return nil
}

// setNamespace sets the object's namespace to that of the request. An object with another namespace
// is an error.
//
// Upstream: k8s.io/apiserver/pkg/registry/rest EnsureObjectNamespaceMatchesRequestNamespace.
func (t target) setNamespace(obj metav1.Object) error {
	switch namespace := obj.GetNamespace(); {
	case namespace == "" || t.namespace == "":
		obj.SetNamespace(t.namespace)
	case namespace != t.namespace:
		return apierrors.NewBadRequest(namespaceMsg)
	}
	return nil
}
