package rules

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// This file recognizes common names and labels without regular expressions. A value that is not
// recognized may still be valid: then apimachinery's validation decides.

// plainMeta reports whether metadata is certainly valid. It does not check the name.
func plainMeta(m *metav1.ObjectMeta) bool {
	if m.GenerateName != "" || m.Generation < 0 || len(m.OwnerReferences) > 0 || len(m.ManagedFields) > 0 ||
		m.Namespace != "" && !plainWord(m.Namespace, utilvalidation.DNS1123LabelMaxLength) {
		return false
	}
	for key, value := range m.Labels {
		if !plainKey(key) || value != "" && !plainWord(value, utilvalidation.LabelValueMaxLength) {
			return false
		}
	}
	size := 0
	for key, value := range m.Annotations {
		size += len(key) + len(value)
		if !plainKey(key) || size > validation.TotalAnnotationSizeLimitB {
			return false
		}
	}
	for _, f := range m.Finalizers {
		if !plainKey(f) || !strings.Contains(f, "/") {
			return false
		}
	}
	return true
}

// plainWord reports whether s has only lower-case letters, digits, and hyphens within.
func plainWord(s string, lenMax int) bool {
	if s == "" || len(s) > lenMax || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// plainKey reports whether a key consists of plain words separated by dots, with at most one slash.
func plainKey(key string) bool {
	prefix, word, found := strings.Cut(key, "/")
	if !found {
		return plainWord(key, utilvalidation.LabelValueMaxLength)
	}
	return plainName(prefix) && plainWord(word, utilvalidation.LabelValueMaxLength)
}

// plainName reports whether a name consists of plain words separated by dots.
func plainName(name string) bool {
	if len(name) > utilvalidation.DNS1123SubdomainMaxLength {
		return false
	}
	for found := true; found; {
		var word string
		if word, name, found = strings.Cut(name, "."); !plainWord(word, utilvalidation.DNS1123SubdomainMaxLength) {
			return false
		}
	}
	return true
}

// NameIsDNSSubdomain returns what is wrong with a name. It returns the same as
// validation.NameIsDNSSubdomain, faster.
func NameIsDNSSubdomain(name string, prefix bool) []string {
	if plainName(name) {
		return nil
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}
