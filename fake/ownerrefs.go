package fake

import (
	"fmt"
	"strings"

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
	seen := make(map[ownerKey]bool, len(m.OwnerReferences))
	for _, ref := range m.OwnerReferences {
		key := keyOfOwner(ref)
		if seen[key] {
			twice = append(twice, string(ref.UID))
			continue
		}
		seen[key] = true
		kept = append(kept, ref)
	}
	if twice == nil {
		return nil
	}
	m.OwnerReferences = kept
	return []string{fmt.Sprintf(format, strings.Join(twice, ", "))}
}

// An ownerKey has the contents of an owner reference, to compare with.
type ownerKey struct {
	ref               metav1.OwnerReference // without pointers
	controller, block flag
}

// A flag is the content of an optional boolean.
type flag struct{ set, value bool }

func keyOfOwner(ref metav1.OwnerReference) ownerKey {
	key := ownerKey{controller: flagOf(ref.Controller), block: flagOf(ref.BlockOwnerDeletion)}
	ref.Controller, ref.BlockOwnerDeletion = nil, nil
	key.ref = ref
	return key
}

func flagOf(b *bool) flag { return flag{b != nil, b != nil && *b} }
