package crd

import (
	"cmp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const approvalField = "metadata.annotations[" + apiextensionsv1.KubeAPIApprovedAnnotation + "]"

// withoutMetadataErrors leaves of the errors about a definition those that package fake does not find: it looks at metadata itself, but does
// not know how a definition must be named, nor who must have approved it.
func withoutMetadataErrors(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return strings.HasPrefix(e.Field, "metadata") && e.Detail != nameDetail && e.Field != approvalField
	})
}

// withoutAcceptedNamesErrors leaves out what is wrong with the names that are accepted because they are wanted: that was said of those.
func withoutAcceptedNamesErrors(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(e *field.Error) bool { return strings.HasPrefix(e.Field, "status.acceptedNames") })
}

// byProperty puts errors about the properties of a schema in the order of the properties' names. Upstream finds them in
// the order of its maps, which is none. What comes between them stays between them.
func byProperty(errs field.ErrorList, level int) field.ErrorList {
	for i := 0; i < len(errs); {
		n := 0
		for i+n < len(errs) && property(errs[i+n], level) != "" {
			n++
		}
		run := errs[i : i+n]
		slices.SortStableFunc(run, func(a, b *field.Error) int { return cmp.Compare(property(a, level), property(b, level)) })
		for len(run) > 0 {
			same := 1
			for same < len(run) && property(run[same], level) == property(run[0], level) {
				same++
			}
			byProperty(run[:same], level+1)
			run = run[same:]
		}
		i += n + 1
	}
	return errs
}

// property is the path to the property at a level that an error is about, or "".
func property(e *field.Error, level int) string {
	end := 0
	for range level + 1 {
		i := strings.Index(e.Field[end:], "properties[")
		if i < 0 {
			return ""
		}
		end += i
		if i = strings.Index(e.Field[end:], "]"); i < 0 {
			return ""
		}
		end += i
	}
	return e.Field[:end]
}

// byPath puts errors in the order of their paths.
func byPath(errs field.ErrorList) field.ErrorList {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	return errs
}
