package pvcontroller

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func version(uid types.UID, resourceVersion string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "c", UID: uid, ResourceVersion: resourceVersion,
	}}
}

func TestVersionsKeepTheNewest(t *testing.T) {
	put := func(c *claimCache, obj *corev1.PersistentVolumeClaim) (freshness, error) { return c.put(obj) }
	renew := func(c *claimCache, obj *corev1.PersistentVolumeClaim) (freshness, error) { return c.putWritten(obj) }
	tests := []struct {
		name  string
		known *corev1.PersistentVolumeClaim // nil: none
		how   func(*claimCache, *corev1.PersistentVolumeClaim) (freshness, error)
		obj   *corev1.PersistentVolumeClaim
		want  freshness
		kept  string // resourceVersion; "": none
	}{
		{"5-1 the first", nil, put, version("u1", "7"), newer, "7"},
		{"5-1 a newer one", version("u1", "7"), put, version("u1", "8"), newer, "8"},
		{"5-1 the same again, for the resync", version("u1", "7"), put, version("u1", "7"), same, "7"},
		{"5-1 an older one", version("u1", "7"), put, version("u1", "6"), older, "7"},
		{"versions are compared as numbers, not as strings", version("u1", "10"), put, version("u1", "9"), older, "10"},
		{"recreated", version("u1", "7"), put, version("u2", "9"), newer, "9"},
		{"answer to a write", version("u1", "7"), renew, version("u1", "8"), newer, "8"},
		{"answer after the watch event", version("u1", "9"), renew, version("u1", "8"), older, "9"},
		{"answer for a deleted claim", nil, renew, version("u1", "8"), older, ""},
		{"answer for a recreated claim", version("u2", "9"), renew, version("u1", "8"), older, "9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cache := newClaimCache(memory{})
			if tt.known != nil {
				if _, err := cache.put(tt.known); err != nil {
					t.Fatal(err)
				}
			}
			got, err := tt.how(cache, tt.obj)
			if err != nil || got != tt.want {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
			kept := ""
			if claim := cache.get("default/c"); claim != nil {
				kept = claim.ResourceVersion
			}
			if kept != tt.kept {
				t.Errorf("kept version %q, want %q", kept, tt.kept)
			}
		})
	}
}

func TestVersionsRejectNonNumbers(t *testing.T) {
	cache := newClaimCache(memory{})
	if _, err := cache.put(version("u1", "7")); err != nil {
		t.Fatal(err)
	}
	if _, err := cache.put(version("u1", "x")); err == nil {
		t.Error("no error for a resourceVersion that is not a number")
	}
}

func TestKeysAreSets(t *testing.T) {
	k := keys{}
	steps := []struct {
		add, remove string
		want        []string
	}{
		{remove: "a", want: nil},
		{add: "b", want: []string{"b"}},
		{add: "b", want: []string{"b"}},
		{remove: "a", want: []string{"b"}},
		{add: "a", want: []string{"a", "b"}},
		{add: "c", want: []string{"a", "b", "c"}},
		{remove: "b", want: []string{"a", "c"}},
		{remove: "a", want: []string{"c"}},
		{remove: "a", want: []string{"c"}},
		{remove: "c", want: nil},
		{add: "d", want: []string{"d"}},
		{remove: "d", want: nil},
	}
	for i, step := range steps {
		if step.add != "" {
			k.add("name", step.add)
		} else {
			k.remove("name", step.remove)
		}
		if got := k.sorted("name"); !slices.Equal(got, step.want) || (len(got) == 0) != (len(k) == 0) {
			t.Errorf("step %d: got %v of %d names, want %v", i, got, len(k), step.want)
		}
	}
}
