package rules

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// Names and labels as most people write them, told at a glance. What is not plain may be right all the same: then the
// rules of apimachinery, which are regular expressions, have the word.

// plainMeta tells whether metadata has nothing in it that would have to be looked at closely; the name is not looked at.
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

// plainWord tells whether a word is of lower-case letters, digits, and hyphens within.
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

// plainKey tells whether a key is of plain words with dots between, and one slash or none.
func plainKey(key string) bool {
	prefix, word, found := strings.Cut(key, "/")
	if !found {
		return plainWord(key, utilvalidation.LabelValueMaxLength)
	}
	return plainName(prefix) && plainWord(word, utilvalidation.LabelValueMaxLength)
}

// plainName tells whether a name is of plain words with dots between.
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

// NameIsDNSSubdomain says what is wrong with a name, as validation.NameIsDNSSubdomain does.
func NameIsDNSSubdomain(name string, prefix bool) []string {
	if plainName(name) {
		return nil
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}
