package apirequest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// redacted stands for a confidential value.
const redacted = "REDACTED"

// WithoutSecrets returns the request with the values of a Secret, or the token of a TokenReview, replaced by
// REDACTED. It can be sent, too. A body that contains such values but cannot be read is left out.
func (q Request) WithoutSecrets() Request {
	resource := resourceOf(q.path)
	if q.body == "" || resource != "secrets" && resource != "tokenreviews" && !mayContainSecret(q.body) {
		return q
	}
	body, err := q.bodyBytes()
	if err != nil {
		q.body = ""
		return q
	}
	if q.media == "protobuf" {
		if body, err = jsonOfProtobuf(body); err != nil {
			q.body = ""
			return q
		}
		q.media, q.body = "", bodyText(body)
	}
	var content any
	if err := yaml.Unmarshal(body, &content); err != nil {
		q.body = ""
		return q
	}
	was, err := json.Marshal(content)
	if err != nil {
		q.body = ""
		return q
	}
	switch of := content.(type) {
	case map[string]any:
		redactObject(of, resource == "secrets")
	case []any:
		redactPatch(of, resource)
	default:
		q.body = ""
		return q
	}
	out, err := json.Marshal(content)
	if err != nil {
		q.body = ""
		return q
	}
	if !bytes.Equal(was, out) {
		q.body = bodyText(out)
	}
	return q
}

// resourceOf returns the resource of a path if it is one with confidential values, or "".
func resourceOf(path string) string {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return ""
	}
	parts := strings.FieldsFunc(u.Path, func(c rune) bool { return c == '/' })
	for _, name := range []string{"secrets", "tokenreviews"} {
		if slices.Contains(parts, name) {
			return name
		}
	}
	return ""
}

// mayContainSecret reports whether a body may be, or contain, a Secret.
func mayContainSecret(body string) bool { return strings.Contains(body, "Secret") }

// redactObject replaces the confidential values of an object. isSecret says that it is a Secret, whatever its
// kind: a patch has none.
func redactObject(content map[string]any, isSecret bool) {
	kind, _ := content["kind"].(string)
	if isSecret || kind == "Secret" {
		for field, value := range map[string]string{
			"data": base64.StdEncoding.EncodeToString([]byte(redacted)), "stringData": redacted,
		} {
			if values, ok := content[field].(map[string]any); ok {
				redactValues(values, value)
			} else if content[field] != nil {
				content[field] = map[string]any{}
			}
		}
		if metadata, _ := content["metadata"].(map[string]any); metadata != nil {
			if annotations, _ := metadata["annotations"].(map[string]any); annotations[corev1.LastAppliedConfigAnnotation] != nil {
				annotations[corev1.LastAppliedConfigAnnotation] = redacted
			}
		}
	}
	if spec, _ := content["spec"].(map[string]any); spec["token"] != nil && (kind == "TokenReview" || kind == "") {
		spec["token"] = redacted
	}
	if items, ok := content["items"].([]any); ok {
		for _, item := range items {
			if object, ok := item.(map[string]any); ok {
				redactObject(object, isSecret)
			}
		}
	}
}

// redactValues replaces all values that are not null, which in a patch removes a key.
func redactValues(values map[string]any, by string) {
	for key, value := range values {
		if value != nil {
			values[key] = by
		}
	}
}

// redactPatch replaces the values of a JSON patch of a Secret.
func redactPatch(ops []any, resource string) {
	if resource != "secrets" {
		return
	}
	for _, each := range ops {
		op, ok := each.(map[string]any)
		if !ok || op["value"] == nil {
			continue
		}
		path, _ := op["path"].(string)
		by := redacted
		if strings.HasPrefix(path, "/data") {
			by = base64.StdEncoding.EncodeToString([]byte(redacted))
		}
		switch value := op["value"].(type) {
		case map[string]any:
			if path == "" {
				redactObject(value, true)
			} else if !strings.HasPrefix(path, "/metadata/labels") {
				redactValues(value, by)
			}
		case string:
			if !strings.HasPrefix(path, "/metadata/") || strings.Contains(path, "last-applied-configuration") {
				op["value"] = by
			}
		}
	}
}

// jsonOfProtobuf converts an object of a built-in kind from protobuf.
func jsonOfProtobuf(body []byte) ([]byte, error) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	obj, gvk, err := info.Serializer.Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return json.Marshal(obj)
}
