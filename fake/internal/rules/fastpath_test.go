package rules

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Draws metadata, much of it slightly invalid.
func TestPlainMetadataIsValid(t *testing.T) {
	word := rapid.StringMatching(`[a-z0-9A-Z./_-]{0,12}|[a-z0-9-]{60,66}|([a-z0-9]{3,50}\.){1,6}[a-z]{1,3}(/[a-z.-]{0,3})?`)
	rapid.Check(t, func(t *rapid.T) {
		m := metav1.ObjectMeta{
			Name: "n", Namespace: word.Draw(t, "namespace"),
			Labels:      map[string]string{word.Draw(t, "key"): word.Draw(t, "value")},
			Annotations: map[string]string{word.Draw(t, "annotation"): "!"},
			Finalizers:  []string{word.Draw(t, "finalizer")},
		}
		if rapid.Bool().Draw(t, "few") {
			m.Annotations, m.Finalizers = nil, nil
		}
		if rapid.Bool().Draw(t, "plain") {
			m.Namespace, m.Labels = "default", map[string]string{"app": "db"}
		}
		if plainMeta(&m) {
			errs := validation.ValidateObjectMeta(&m, m.Namespace != "", validation.NameIsDNSSubdomain, metaPath)
			errs = append(errs, validateFinalizers(m.Finalizers)...)
			if len(errs) > 0 {
				t.Fatalf("%+v: %v", m, errs)
			}
		}
		name := word.Draw(t, "name")
		if got, want := len(NameIsDNSSubdomain(name, false)), len(validation.NameIsDNSSubdomain(name, false)); got != want {
			t.Fatalf("%q: %d faults, want %d", name, got, want)
		}
	})
	plain := metav1.ObjectMeta{Name: "n", Namespace: "default", Labels: map[string]string{"app": "db"}}
	if !plainMeta(&plain) {
		t.Errorf("not plain: %+v", plain)
	}
}
