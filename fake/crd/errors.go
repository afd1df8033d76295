package crd

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// own leaves of the errors about a definition those that package fake does not find: it looks at metadata itself, but does
// not know how a definition must be named.
func own(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return strings.HasPrefix(e.Field, "metadata") && e.Detail != nameDetail
	})
}

// isOfSchema tells whether a path is within a schema.
func isOfSchema(path string) bool { return strings.Contains(path, "openAPIV3Schema") }

// ordered puts each run of errors of which it may be said by their paths. Upstream finds them in the order of its maps,
// which is none.
func ordered(errs field.ErrorList, may func(*field.Error) bool) field.ErrorList {
	for i := 0; i < len(errs); {
		n := 0
		for i+n < len(errs) && may(errs[i+n]) {
			n++
		}
		slices.SortStableFunc(errs[i:i+n], func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
		i += n + 1
	}
	return errs
}

// byPath puts errors in the order of their paths.
func byPath(errs field.ErrorList) field.ErrorList {
	return ordered(errs, func(*field.Error) bool { return true })
}
