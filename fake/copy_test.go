package fake

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

// fillIn sets every field below v, down to a depth.
func fillIn(v reflect.Value, depth int) {
	if depth == 0 || !v.CanSet() {
		return
	}
	if q, ok := v.Addr().Interface().(*apiresource.Quantity); ok {
		*q = apiresource.MustParse("1500m")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(v.Elem(), depth-1)
	case reflect.Struct:
		for i := range v.NumField() {
			fillIn(v.Field(i), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillIn(v.Index(0), depth-1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillIn(key, depth-1)
		fillIn(value, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	}
}

// shared returns the path of something that a and b both point to, or "".
func shared(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if a.IsNil() || a.Kind() == reflect.Slice && a.Len() == 0 || a.Type().String() == "*time.Location" {
			return ""
		}
		if b.IsNil() {
			return ""
		}
		empty := a.Kind() == reflect.Pointer && a.Type().Elem().Size() == 0 // all values of the type have one address
		if a.Pointer() == b.Pointer() && !empty {
			return path
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		return shared(a.Elem(), b.Elem(), path)
	case reflect.Struct:
		for i := range a.NumField() {
			if found := shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); found != "" {
				return found
			}
		}
	case reflect.Slice:
		for i := range a.Len() {
			if found := shared(a.Index(i), b.Index(i), path+"[]"); found != "" {
				return found
			}
		}
	case reflect.Map:
		for _, key := range a.MapKeys() {
			if found := shared(a.MapIndex(key), b.MapIndex(key), path+"[]"); found != "" {
				return found
			}
		}
	}
	return ""
}

func TestCopiesAreEqualAndShareNothing(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.id, func(t *testing.T) {
			full, empty := k.empty(), k.empty()
			fillIn(reflect.ValueOf(full).Elem(), 8)
			for _, obj := range []Object{full, empty} {
				got := k.copy(obj)
				if diff := cmp.Diff(obj, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				if path := shared(reflect.ValueOf(obj), reflect.ValueOf(got), ""); path != "" {
					t.Errorf("%s is shared", path)
				}
			}
		})
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{
		"a": apiresource.MustParse("1Gi"), "b": apiresource.MustParse("0.1n"),
	}
	copied := kindsByID["persistentvolumeclaims"].copy(claim)
	if path := shared(reflect.ValueOf(claim), reflect.ValueOf(copied), ""); path != "" {
		t.Errorf("%s is shared", path)
	}
}

// A kind's draft equals the generic one, and shares nothing with what was sent.
func TestDraftsAreCopies(t *testing.T) {
	for _, k := range kinds {
		if k.draft == nil {
			continue
		}
		sent, bare := k.empty(), *k
		fillIn(reflect.ValueOf(sent).Elem(), 8)
		sent.SetManagedFields(nil)
		bare.draft = nil
		for _, old := range []Object{k.copy(sent), k.empty()} {
			for _, through := range []subresource{mainResource, statusSubresource} {
				want := ResourceClient{kind: &bare}.draft(sent, old, through, false)
				got := ResourceClient{kind: k}.draft(sent, old, through, false)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s%s (-want +got)\n%s", k.id, through, diff)
				}
				if path := shared(reflect.ValueOf(sent), reflect.ValueOf(got), ""); path != "" {
					t.Errorf("%s%s: %s is shared with what was sent", k.id, through, path)
				}
			}
		}
	}
}
