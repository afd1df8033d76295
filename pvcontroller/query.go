package pvcontroller

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A form is the part that label selectors share if they differ only in the requested values. It
// consists of the keys that must have one of some values (matchLabels, In) and all other
// requirements (NotIn, Exists, DoesNotExist). A cluster has few forms, however many values its
// selectors request.
type form struct {
	text string // equal for equal forms
	keys []string
	rest labels.Requirements
}

// bucket returns the bucket of labels: a hash of their values for the form's keys. Objects with
// equal values share a bucket; others may share it through a hash collision. ok is false for labels
// that the form excludes.
func (f *form) bucket(set labels.Set) (bucket uint64, ok bool) {
	for i := range f.rest {
		if !f.rest[i].Matches(set) {
			return 0, false
		}
	}
	bucket = hashStart
	for _, key := range f.keys {
		value, ok := set[key]
		if !ok {
			return 0, false
		}
		bucket = hashNext(bucket, value)
	}
	return bucket, true
}

// A query is a label selector, split into form and values.
type query struct {
	form
	buckets  []uint64 // buckets of selected objects: one for each combination of requested values
	selector labels.Selector
}

// bucketsMax bounds the buckets of a query. A requirement that would exceed it becomes part of the
// form.
const bucketsMax = 64

// queryOf splits a selector; nil selects everything. An invalid selector is an error.
func queryOf(selector *metav1.LabelSelector) (query, error) {
	if selector == nil {
		return query{buckets: rootBucket, selector: labels.Everything()}, nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return query{}, err
	}
	requirements, _ := parsed.Requirements()
	requirements = slices.Clone(requirements)
	slices.SortFunc(requirements, compareRequirements)
	q := query{buckets: rootBucket, selector: parsed}
	for _, r := range requirements {
		q.require(r)
	}
	q.name()
	return q, nil
}

// rootBucket holds the only bucket of a query that requests no values.
var rootBucket = []uint64{hashStart}

// compareRequirements sorts by key, then by text.
func compareRequirements(a, b labels.Requirement) int {
	if c := strings.Compare(a.Key(), b.Key()); c != 0 {
		return c
	}
	return strings.Compare(a.String(), b.String())
}

// require adds a requirement. Requirements must be added in the order of their keys.
func (q *query) require(r labels.Requirement) {
	values := r.ValuesUnsorted()
	asked := len(q.keys) > 0 && q.keys[len(q.keys)-1] == r.Key()
	positive := r.Operator() == selection.Equals || r.Operator() == selection.In
	if asked || !positive || len(q.buckets)*len(values) > bucketsMax {
		q.rest = append(q.rest, r)
		return
	}
	q.keys = append(q.keys, r.Key())
	buckets := make([]uint64, 0, len(q.buckets)*len(values))
	for _, bucket := range q.buckets {
		for _, value := range values {
			buckets = append(buckets, hashNext(bucket, value))
		}
	}
	q.buckets = buckets
}

// name sets the text of the form. Keys contain neither comma nor semicolon.
func (q *query) name() {
	parts := make([]string, 0, len(q.rest)+1)
	parts = append(parts, strings.Join(q.keys, ","))
	for i := range q.rest {
		parts = append(parts, q.rest[i].String())
	}
	q.text = strings.Join(parts, ";")
}

// isEverything reports whether the query selects every object.
func (q *query) isEverything() bool { return q.text == "" }

// hashStart and hashNext hash the values of labels, one after the other (FNV-1a).
const hashStart uint64 = 14695981039346656037

func hashNext(hash uint64, value string) uint64 {
	const prime = 1099511628211
	for i := range len(value) {
		hash = (hash ^ uint64(value[i])) * prime
	}
	return hash * prime // a zero byte ends the value
}
