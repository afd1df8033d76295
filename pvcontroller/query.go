package pvcontroller

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// form is what label selectors have in common that differ only in the values they ask for: the keys that must have one
// of some values (matchLabels, In), and all else that is required (NotIn, Exists, DoesNotExist). The selectors of a
// world have few forms, however many values they ask for.
type form struct {
	text string // equal for equal forms
	keys []string
	rest labels.Requirements
}

// bucket tells where objects with these labels stand among those of the form: all that have the same values for its keys
// in one place. Other values may by chance have the same place. Objects that the form leaves out are nowhere: ok is false.
func (f *form) bucket(set labels.Set) (place uint64, ok bool) {
	for i := range f.rest {
		if !f.rest[i].Matches(set) {
			return 0, false
		}
	}
	place = hashStart
	for _, key := range f.keys {
		value, ok := set[key]
		if !ok {
			return 0, false
		}
		place = hashNext(place, value)
	}
	return place, true
}

// query is a label selector as a form and values.
type query struct {
	form
	buckets  []uint64 // where the objects stand that it selects, one for each choice among the values it asks for
	selector labels.Selector
}

// bucketsMax bounds the places of a query. A requirement that would make for more is one of the form's.
const bucketsMax = 64

// queryOf takes a selector apart; nil selects everything. It fails if the selector makes no sense.
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

// rootBucket are the places of a query that asks for no values.
var rootBucket = []uint64{hashStart}

// compareRequirements sorts by key, and those of one key in any order that depends on nothing but them.
func compareRequirements(a, b labels.Requirement) int {
	if c := strings.Compare(a.Key(), b.Key()); c != 0 {
		return c
	}
	return strings.Compare(a.String(), b.String())
}

// require adds a requirement, which comes after those added so far by its key.
func (q *query) require(r labels.Requirement) {
	values := r.ValuesUnsorted()
	asked := len(q.keys) > 0 && q.keys[len(q.keys)-1] == r.Key()
	positive := r.Operator() == selection.Equals || r.Operator() == selection.In
	if asked || !positive || len(q.buckets)*len(values) > bucketsMax {
		q.rest = append(q.rest, r)
		return
	}
	q.keys = append(q.keys, r.Key())
	places := make([]uint64, 0, len(q.buckets)*len(values))
	for _, place := range q.buckets {
		for _, value := range values {
			places = append(places, hashNext(place, value))
		}
	}
	q.buckets = places
}

// name gives the form its text. Neither comma nor semicolon can be in a key.
func (q *query) name() {
	parts := make([]string, 0, len(q.rest)+1)
	parts = append(parts, strings.Join(q.keys, ","))
	for i := range q.rest {
		parts = append(parts, q.rest[i].String())
	}
	q.text = strings.Join(parts, ";")
}

// isEverything tells whether the query selects whatever there is.
func (q *query) isEverything() bool { return q.text == "" }

// hashStart and placeAfter hash the values of labels, one after the other (FNV-1a).
const hashStart uint64 = 14695981039346656037

func hashNext(place uint64, value string) uint64 {
	const prime = 1099511628211
	for i := range len(value) {
		place = (place ^ uint64(value[i])) * prime
	}
	return place * prime // the end of the value, as a zero
}
