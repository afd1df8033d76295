package pvcontroller

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPostingsHoldOnlyWhatTheirFormSelects matches with selectors of several forms: a search skips
// the part of its posting that is not in the places of the query.
func TestPostingsHoldOnlyWhatTheirFormSelects(t *testing.T) {
	const (
		in     = metav1.LabelSelectorOpIn
		notIn  = metav1.LabelSelectorOpNotIn
		exists = metav1.LabelSelectorOpExists
		absent = metav1.LabelSelectorOpDoesNotExist
	)
	is := func(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	var wide []string
	for i := range bucketsMax/2 + 1 {
		wide = append(wide, fmt.Sprint(i))
	}
	tests := []struct {
		name         string
		labels       map[string]string
		expressions  []metav1.LabelSelectorRequirement
		form         string
		held, places int
	}{
		{"one label", map[string]string{"n": "7"}, nil, "n", 100, 1},
		{"two labels", map[string]string{"n": "7", "even": "no"}, nil, "even,n", 50, 1},
		{"In", nil, []metav1.LabelSelectorRequirement{is("n", in, "7", "8")}, "n", 100, 2},
		{
			"In twice", nil,
			[]metav1.LabelSelectorRequirement{is("n", in, "7", "8"), is("tens", in, "0", "1", "2")},
			"n,tens", 100, 6,
		},
		{
			"In with more values than places", nil,
			[]metav1.LabelSelectorRequirement{is("n", in, wide...), is("tens", in, "0", "1")},
			"n;tens in (0,1)", 20, bucketsMax/2 + 1,
		},
		{
			"one key twice",
			map[string]string{"tens": "1"},
			[]metav1.LabelSelectorRequirement{is("tens", in, "1", "2")},
			"tens;tens=1", 10, 2,
		},
		{"NotIn", nil, []metav1.LabelSelectorRequirement{is("tens", notIn, "0", "1")}, ";tens notin (0,1)", 80, 1},
		{"Exists", nil, []metav1.LabelSelectorRequirement{is("even", exists)}, ";even", 50, 1},
		{"DoesNotExist", nil, []metav1.LabelSelectorRequirement{is("even", absent)}, ";!even", 50, 1},
		{"all", map[string]string{"n": "7"}, []metav1.LabelSelectorRequirement{
			is("even", exists),
			is("tens", notIn, "0"),
		}, "n;even;tens notin (0)", 45, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newFreeSet()
			for i := range 100 {
				v := freeVolume(fmt.Sprint(i), "1")
				v.Labels = map[string]string{"n": fmt.Sprint(i), "tens": fmt.Sprint(i / 10)}
				if i%2 == 0 {
					v.Labels["even"] = "yes"
				}
				s.add(v)
			}
			q, err := queryOf(&metav1.LabelSelector{MatchLabels: test.labels, MatchExpressions: test.expressions})
			if err != nil {
				t.Fatal(err)
			}
			p := s.posting(q.form)
			p.fill(s.all)
			if p.text != test.form || p.tree.Len() != test.held || len(q.buckets) != test.places {
				t.Errorf("form %q: got %d volumes, %d places; want %q, %d, %d",
					p.text, p.tree.Len(), len(q.buckets), test.form, test.held, test.places)
			}
		})
	}
}

// TestUsedPostingsStay requests one form every other time, and new ones in between.
func TestUsedPostingsStay(t *testing.T) {
	s := newFreeSet()
	first := s.posting(form{text: "first"})
	for i := range 10 * postingsMax {
		s.posting(form{text: fmt.Sprint(i)})
		if s.posting(form{text: "first"}) != first {
			t.Fatalf("rebuilt after %d others", i+1)
		}
	}
}

func TestPlacesDifferExceptForOnePair(t *testing.T) {
	if a, b := hashNext(hashStart, samePlace[0]), hashNext(hashStart, samePlace[1]); a != b {
		t.Errorf("places %d and %d: the test of a collision needs other values", a, b)
	}
	if hashNext(hashNext(hashStart, "a"), "bc") == hashNext(hashNext(hashStart, "ab"), "c") {
		t.Error("a value continues in the next")
	}
}
