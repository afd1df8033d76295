package cluster

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"

	"github.com/volsim/volsim/fake"
)

// A condition is one of the forms of WaitFor, except delete.
type condition interface {
	holds(obj fake.Object) bool
	// found describes what the object has instead.
	found(obj fake.Object) string
}

func parseCondition(text string) (condition, error) {
	kind, rest, _ := strings.Cut(text, "=")
	switch {
	case text == "create":
		return exists{}, nil
	case kind == "condition" && rest != "":
		name, value, given := strings.Cut(rest, "=")
		if !given {
			value = "True"
		}
		return statusCondition{name, value}, nil
	case kind == "jsonpath" && rest != "":
		return parseFieldValue(rest)
	}
	return nil, fmt.Errorf("unexpected condition %q: use create, delete, condition=NAME[=VALUE] or jsonpath={.PATH}[=VALUE]", text)
}

// exists is the condition "create".
type exists struct{}

func (exists) holds(fake.Object) bool   { return true }
func (exists) found(fake.Object) string { return "" }

// A statusCondition requires a value of a condition in the status.
type statusCondition struct{ name, value string }

// status returns the value of the condition, "" if the object has none, and whether it is about the
// present generation.
//
// Upstream: kubectl/pkg/cmd/wait ConditionalWait.checkCondition (v1.36).
func (s statusCondition) status(obj fake.Object) (value string, current bool) {
	content := contentOf(obj)
	conditions, _, _ := unstructured.NestedSlice(content, "status", "conditions")
	for _, one := range conditions {
		fields, _ := one.(map[string]any)
		name, _ := fields["type"].(string)
		if !strings.EqualFold(name, s.name) {
			continue
		}
		value, _ := fields["status"].(string)
		observed, ok := fields["observedGeneration"].(int64)
		if !ok {
			observed, ok, _ = unstructured.NestedInt64(content, "status", "observedGeneration")
		}
		return value, !ok || observed >= obj.GetGeneration()
	}
	return "", true
}

func (s statusCondition) holds(obj fake.Object) bool {
	value, current := s.status(obj)
	return current && strings.EqualFold(value, s.value)
}

func (s statusCondition) found(obj fake.Object) string {
	switch value, current := s.status(obj); {
	case value == "":
		return fmt.Sprintf("the status has no condition %s", s.name)
	case !current:
		return fmt.Sprintf("condition %s is of an older generation", s.name)
	default:
		return fmt.Sprintf("condition %s is %s", s.name, value)
	}
}

// A fieldValue requires a field, or a value of it.
type fieldValue struct {
	text  string // the expression
	path  *jsonpath.JSONPath
	value *string // nil: any
}

// parseFieldValue parses an expression in braces, and "=VALUE" after it. The braces may be missing if
// the expression contains no "=".
func parseFieldValue(text string) (condition, error) {
	f := fieldValue{text: text}
	end := strings.LastIndex(text, "}") + 1
	if before, value, given := strings.Cut(text[end:], "="); given {
		f.text, f.value = text[:end]+before, &value
	}
	if end == 0 {
		f.text = "{." + strings.TrimPrefix(f.text, ".") + "}"
	}
	f.path = jsonpath.New("wait").AllowMissingKeys(true)
	if err := f.path.Parse(f.text); err != nil {
		return nil, fmt.Errorf("jsonpath %q: %w", f.text, err)
	}
	return f, nil
}

// values returns what the path finds.
func (f fieldValue) values(obj fake.Object) (string, bool) {
	results, err := f.path.FindResults(contentOf(obj))
	if err != nil {
		return "", false
	}
	var words []string
	for _, list := range results {
		for _, value := range list {
			words = append(words, fmt.Sprint(value.Interface()))
		}
	}
	return strings.Join(words, " "), len(words) > 0
}

func (f fieldValue) holds(obj fake.Object) bool {
	value, ok := f.values(obj)
	return ok && (f.value == nil || value == *f.value)
}

func (f fieldValue) found(obj fake.Object) string {
	value, ok := f.values(obj)
	if !ok {
		return f.text + " is not set"
	}
	return fmt.Sprintf("%s is %q", f.text, value)
}

// contentOf returns an object as JSON types.
func contentOf(obj fake.Object) map[string]any {
	if custom, is := obj.(*fake.CustomObject); is {
		if u, err := custom.Unstructured(); err == nil {
			return u.Object
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic("cluster: convert an object of the store: " + err.Error())
	}
	return content
}
