package fake

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A selector selects objects of a resource, for a list or a watch.
type selector struct {
	kind      *kind
	namespace string              // "": all
	labels    labels.Selector     // nil: all
	required  fields.Requirements // none: all
	after     int64               // only events after this revision
}

// newSelector parses the selectors of a request. It returns a BadRequest error.
func newSelector(k *kind, namespace string, opts *metav1.ListOptions) (selector, error) {
	sel := selector{kind: k, namespace: namespace}
	if opts.LabelSelector != "" {
		l, err := labels.Parse(opts.LabelSelector)
		if err != nil {
			return sel, apierrors.NewBadRequest(err.Error())
		}
		sel.labels = l
	}
	if opts.FieldSelector != "" {
		f, err := fields.ParseSelector(opts.FieldSelector)
		if err != nil {
			return sel, apierrors.NewBadRequest(err.Error())
		}
		probe := k.empty()
		if k.base != nil {
			probe = k.base.empty() // selected by what is stored
		}
		for _, r := range f.Requirements() {
			if _, ok := k.field(probe, r.Field); !ok {
				return sel, apierrors.NewBadRequest(k.fieldError(r.Field))
			}
		}
		sel.required = f.Requirements()
	}
	return sel, nil
}

// unknownField returns the error about a field that is not supported, for a kind without own
// fields.
func unknownField(label string) string {
	return fmt.Sprintf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
}

// unsupportedField is unknownField for a kind with own fields.
func unsupportedField(label string) string { return "field label not supported: " + label }

// all reports whether it selects every object of its namespace.
func (s selector) all() bool { return s.labels == nil && len(s.required) == 0 }

// matches reports whether an object, possibly nil, is selected.
func (s *selector) matches(obj Object) bool {
	return obj != nil &&
		(s.namespace == "" || obj.GetNamespace() == s.namespace) &&
		(s.labels == nil || s.labels.Matches(labels.Set(obj.GetLabels()))) &&
		s.matchesFields(obj)
}

// matchesFields reports whether an object matches the field selector.
func (s *selector) matchesFields(obj Object) bool {
	for _, r := range s.required {
		if value, _ := s.kind.field(obj, r.Field); (value == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// prefix returns the prefix of the selected objects' keys.
func (s selector) prefix() string {
	if s.namespace == "" {
		return ""
	}
	return s.namespace + "/"
}

// scan calls f for the selected objects from a key on, in order, until f returns false.
func (s selector) scan(objects *objectMap, from string, f func(key string, obj Object) bool) {
	prefix := s.prefix()
	objects.Ascend(max(from, prefix), func(key string, obj Object) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		return !s.matches(obj) || f(key, obj)
	})
}
