package crd

import (
	"cmp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const approvalField = "metadata.annotations[" + apiextensionsv1.KubeAPIApprovedAnnotation + "]"

// withoutMetadataErrors drops the errors that package fake reports itself. It validates metadata,
// except a definition's name and its approval annotation.
func withoutMetadataErrors(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return strings.HasPrefix(e.Field, "metadata") && e.Detail != nameDetail && e.Field != approvalField
	})
}

// withoutAcceptedNamesErrors drops the errors about accepted names, which repeat those about the
// requested names.
func withoutAcceptedNamesErrors(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs,
		func(e *field.Error) bool { return strings.HasPrefix(e.Field, "status.acceptedNames") })
}

// byProperty sorts runs of errors about the properties of a schema by property name. Upstream finds
// them in map order. Other errors keep their places.
func byProperty(errs field.ErrorList, level int) field.ErrorList {
	for i := 0; i < len(errs); {
		n := 0
		for i+n < len(errs) && property(errs[i+n], level) != "" {
			n++
		}
		run := errs[i : i+n]
		slices.SortStableFunc(run,
			func(a, b *field.Error) int { return cmp.Compare(property(a, level), property(b, level)) })
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

// property returns the path up to the property at the given level of nesting, or "".
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

// byPath sorts errors by path. Those without one name it in their detail.
func byPath(errs field.ErrorList) field.ErrorList {
	slices.SortStableFunc(errs, func(a, b *field.Error) int {
		if c := cmp.Compare(a.Field, b.Field); c != 0 || a.Field != noPath {
			return c
		}
		return cmp.Compare(a.Detail, b.Detail)
	})
	return errs
}

// noPath is the field of an error about a whole object.
var noPath = (*field.Path)(nil).String()
