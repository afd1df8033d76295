package fake

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	duplicateOwnersMsg = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, " +
		"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
	duplicateOwnersLateMsg = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; " +
		"API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; " +
		"duplicate UID(s) observed: %v"
)

// dedupOwners removes duplicate owner references. It returns a warning in the given format if there
// were any.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/rest.go dedupOwnerReferences.
func dedupOwners(m *metav1.ObjectMeta, format string) []string {
	if len(m.OwnerReferences) < 2 {
		return nil
	}
	var kept []metav1.OwnerReference
	var twice []string
	for _, ref := range m.OwnerReferences {
		if slices.ContainsFunc(kept, func(k metav1.OwnerReference) bool {
			return equality.Semantic.DeepEqual(k,
				ref)
		}) {
			twice = append(twice, string(ref.UID))
		} else {
			kept = append(kept, ref)
		}
	}
	if twice == nil {
		return nil
	}
	m.OwnerReferences = kept
	return []string{fmt.Sprintf(format, strings.Join(twice, ", "))}
}
