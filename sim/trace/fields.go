package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fieldsMax is how many fields fieldChanges names.
const fieldsMax = 4

// fieldChanges returns which fields differ between two objects of any kind, by their paths:
// "spec.storage 1Gi → 2Gi". Of the metadata it compares labels and annotations.
func fieldChanges(before, after runtime.Object) []string {
	was, is := fields(before), fields(after)
	paths := maps.Clone(was)
	maps.Copy(paths, is)
	var words []string
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		old, had := was[path]
		now, has := is[path]
		switch {
		case !has:
			words = append(words, path+" removed")
		case !had && isConfidential(after, path):
			words = append(words, path+" set")
		case !had:
			words = append(words, path+"="+shorten(now))
		case old != now && isConfidential(after, path):
			words = append(words, path+" changed")
		case old != now:
			words = append(words, fmt.Sprintf("%s %s → %s", path, shorten(old), shorten(now)))
		}
	}
	if more := len(words) - fieldsMax; more > 1 {
		words = append(words[:fieldsMax], fmt.Sprintf("and %d more fields", more))
	}
	return words
}

// isConfidential reports whether a trace does not show the value of a field: those of a Secret, and tokens.
func isConfidential(obj runtime.Object, path string) bool {
	switch obj.(type) {
	case *corev1.Secret:
	case *authenticationv1.TokenRequest, *authenticationv1.TokenReview:
		return strings.HasSuffix(path, ".token")
	default:
		if obj.GetObjectKind().GroupVersionKind().Kind != "Secret" {
			return false
		}
	}
	return strings.HasPrefix(path, "data.") || strings.HasPrefix(path, "stringData.") ||
		path == "metadata.annotations."+corev1.LastAppliedConfigAnnotation
}

// shorten cuts a long value.
func shorten(value string) string {
	const runesMax = 40
	if runes := []rune(value); len(runes) > runesMax {
		return string(runes[:runesMax]) + "…"
	}
	return value
}

// fields returns the values of an object by path.
func fields(obj runtime.Object) map[string]string {
	out := map[string]string{}
	if obj == nil {
		return out
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return out
	}
	var content map[string]any
	if err := json.Unmarshal(data, &content); err != nil || content == nil { // null: no object
		return out
	}
	metadata, _ := content["metadata"].(map[string]any)
	content["metadata"] = map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"]}
	delete(content, "apiVersion")
	delete(content, "kind")
	flatten(out, "", content)
	return out
}

// flatten adds the values below a path. An empty map or list has none.
func flatten(out map[string]string, path string, value any) {
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, each := range v {
			flatten(out, strings.TrimPrefix(path+"."+key, "."), each)
		}
	case []any:
		for i, each := range v {
			if kind, words, is := condition(path, each); is {
				out[path+"["+kind+"]"] = words
				continue
			}
			flatten(out, path+"["+strconv.Itoa(i)+"]", each)
		}
	default:
		out[path] = fmt.Sprint(v)
	}
}

// condition returns the type of a condition, and its status with the reason. It leaves out the message,
// and the times, which reconcilers take from the wall clock.
func condition(path string, value any) (kind, words string, is bool) {
	fields, _ := value.(map[string]any)
	kind, hasType := fields["type"].(string)
	words, hasStatus := fields["status"].(string)
	if reason, has := fields["reason"].(string); has && reason != "" {
		words += " (" + reason + ")"
	}
	return kind, words, hasType && hasStatus && strings.HasSuffix(path, "onditions")
}

// objectOf returns the name of the object of a write: "secret default/s-1x2y3". The server may have
// completed the name that was sent.
func objectOf(r Record) string {
	resource, name, _ := strings.Cut(r.Object, "/")
	if o, ok := r.After.(metav1.Object); ok && strings.HasSuffix(name, "*") {
		namespace, _, namespaced := strings.Cut(name, "/")
		if name = o.GetName(); namespaced {
			name = namespace + "/" + name
		}
	}
	return ObjectName(resource + "/" + name)
}
