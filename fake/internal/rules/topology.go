package rules

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateTopologies validates the allowed topologies of a class: no two may be equal, and none may
// be empty.
//
// Upstream: pkg/apis/storage/validation validateAllowedTopologies, pkg/apis/core/validation
// ValidateTopologySelectorTerm.
func validateTopologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{"": true} // upstream takes an empty term for a duplicate
	for i, term := range terms {
		path := path.Index(i).Child("matchLabelExpressions")
		values := map[string]string{}
		for j, r := range term.MatchLabelExpressions {
			errs = append(errs, validateTopology(r, path.Index(j))...)
			if _, twice := values[r.Key]; twice {
				errs = append(errs, field.Duplicate(path.Index(j).Child("key"), r.Key))
			}
			values[r.Key] = strings.Join(slices.Compact(slices.Sorted(slices.Values(r.Values))), " ")
		}
		form := ""
		for _, key := range slices.Sorted(maps.Keys(values)) {
			form += key + "=" + values[key] + ";"
		}
		if seen[form] {
			errs = append(errs, field.Duplicate(path, ""))
		}
		seen[form] = true
	}
	return errs
}

func validateTopology(r corev1.TopologySelectorLabelRequirement, path *field.Path) field.ErrorList {
	errs := requireSome(path.Child("values"), len(r.Values))
	seen := map[string]bool{}
	for i, value := range r.Values {
		if seen[value] {
			errs = append(errs, field.Duplicate(path.Child("values").Index(i), value))
		}
		seen[value] = true
	}
	return append(errs, metav1validation.ValidateLabelName(r.Key, path.Child("key"))...)
}
