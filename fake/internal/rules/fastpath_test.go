package rules

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// Draws pairs of objects that often differ in one field only, or not at all on the wire.
func TestSameComparesWireForms(t *testing.T) {
	sizes := rapid.SampledFrom([]corev1.ResourceList{
		nil,
		{},
		{"storage": resource.MustParse("1Gi")},
		{"storage": resource.MustParse("1024Mi")},
		{"storage": resource.MustParse("2Gi")},
		{"storage": *resource.NewQuantity(1<<30, resource.DecimalSI)},
	})
	word := rapid.SampledFrom([]string{"", "", "a"})
	meta := func(t *rapid.T) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: "n", ResourceVersion: word.Draw(t, "version"),
			Finalizers: rapid.SampledFrom([][]string{nil, {}, {"a/b"}, {"a/c"}}).Draw(t, "finalizers"),
		}
	}
	kinds := map[string]func(t *rapid.T) Message{
		"volume": func(t *rapid.T) Message {
			return &corev1.PersistentVolume{
				ObjectMeta: meta(t),
				Spec:       corev1.PersistentVolumeSpec{Capacity: sizes.Draw(t, "capacity"), StorageClassName: word.Draw(t, "class")},
				Status: corev1.PersistentVolumeStatus{
					Phase: corev1.PersistentVolumePhase(word.Draw(t, "phase")), Reason: word.Draw(t, "reason"),
				},
			}
		},
		"claim": func(t *rapid.T) Message {
			spec := corev1.PersistentVolumeClaimSpec{VolumeName: word.Draw(t, "volume")}
			spec.Resources.Requests, spec.Resources.Limits = sizes.Draw(t, "requests"), sizes.Draw(t, "limits")
			return &corev1.PersistentVolumeClaim{
				ObjectMeta: meta(t), Spec: spec,
				Status: corev1.PersistentVolumeClaimStatus{
					Phase:    corev1.PersistentVolumeClaimPhase(word.Draw(t, "phase")),
					Capacity: sizes.Draw(t, "capacity"), AllocatedResources: sizes.Draw(t, "allocated"),
				},
			}
		},
		"node": func(t *rapid.T) Message {
			return &corev1.Node{
				ObjectMeta: meta(t), Spec: corev1.NodeSpec{PodCIDR: word.Draw(t, "range")},
				Status: corev1.NodeStatus{
					Capacity: sizes.Draw(t, "capacity"), Allocatable: sizes.Draw(t, "allocatable"),
					Phase: corev1.NodePhase(word.Draw(t, "phase")),
				},
			}
		},
	}
	for name, draw := range kinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				a, b := draw(t), draw(t)
				if got, want := Same(a, b), sameWire(a, b); got != want {
					t.Fatalf("%v, want %v:\n%v\n%v", got, want, a, b)
				}
			})
		})
	}
}
