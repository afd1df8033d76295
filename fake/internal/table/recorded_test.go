package table_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/apitypes"
	"github.com/volsim/volsim/fake/internal/table"
)

// recorded is a list of objects of kube-apiserver 1.36.3 with its table.
type recorded struct {
	Group, Version, Resource string

	Now  time.Time
	List struct {
		Metadata metav1.ListMeta
		Items    []json.RawMessage
	}
	Table json.RawMessage
}

func read(t *testing.T, file string) recorded {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// objects returns the objects of the list as a server stores them.
func (r recorded) objects(t *testing.T, of fake.APIResource) []fake.Object {
	t.Helper()
	var all []fake.Object
	for _, data := range r.List.Items {
		var obj fake.Object = &fake.CustomObject{}
		if of.Custom == nil {
			created, err := apitypes.New(schema.GroupVersionKind{Group: of.Group, Version: of.Version, Kind: of.Kind})
			if err != nil {
				t.Fatal(err)
			}
			obj = created.(fake.Object)
		}
		if err := json.Unmarshal(data, obj); err != nil {
			t.Fatal(err)
		}
		all = append(all, obj)
	}
	return all
}

// things and definitions are the recorded custom resources.
var (
	things = fake.CustomKind{
		Group: "example.com", Versions: []string{"v1", "v1alpha1"}, Resource: "things", Kind: "Thing", Namespaced: true,
		Columns: func(version string) []fake.Column {
			if version != "v1" {
				return nil
			}
			return []fake.Column{
				column("Size", "integer", ".spec.size"),
				{TableColumnDefinition: metav1.TableColumnDefinition{
					Name: "Ready", Type: "boolean", Description: "Whether it is.",
				}, JSONPath: ".status.ready"},
				column("Note", "string", ".spec.note"),
				column("Ratio", "number", ".spec.ratio"),
				column("When", "date", ".status.when"),
				{
					TableColumnDefinition: metav1.TableColumnDefinition{Name: "Text", Type: "string", Priority: 1},
					JSONPath:              ".spec.size",
				},
				column("Cond", "string", `.status.conditions[?(@.type=="Ready")].status`),
				column("All", "string", ".spec.list"),
				column("Elements", "string", ".spec.list[*]"),
				column("Map", "string", ".spec.map"),
				column("Age", "date", ".metadata.creationTimestamp"),
			}
		},
	}
	definitions = fake.CustomKind{
		Group: "apiextensions.k8s.io", Versions: []string{"v1"}, Resource: "customresourcedefinitions",
		Kind: "CustomResourceDefinition",
	}
)

func column(name, columnType, path string) fake.Column {
	return fake.Column{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: name, Type: columnType}, JSONPath: path,
	}
}

func resources() map[schema.GroupVersionResource]fake.APIResource {
	s := fake.NewServer(fake.Config{Now: func() time.Time { return time.Time{} }})
	s.Install(things)
	s.Install(definitions)
	all := map[schema.GroupVersionResource]fake.APIResource{}
	for _, r := range s.Resources() {
		if !slices.Contains(r.Verbs, "list") {
			continue // nothing to compare
		}
		all[schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}] = r
	}
	return all
}

// TestTablesAreThoseOfARealServer compares whole tables: columns, cells, conditions, null rows.
func TestTablesAreThoseOfARealServer(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	left := resources()
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			is := read(t, file)
			gvr := schema.GroupVersionResource{Group: is.Group, Version: is.Version, Resource: is.Resource}
			r, ok := left[gvr]
			if !ok {
				t.Fatalf("%v is not served, or recorded twice", gvr)
			}
			delete(left, gvr)
			got, err := table.New(r, is.List.Metadata, is.objects(t, r), is.Now,
				metav1.TableOptions{IncludeObject: metav1.IncludeNone})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(plain(t, is.Table), plain(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for gvr := range left {
		t.Errorf("nothing is recorded of %v", gvr)
	}
}

// plain returns a value as JSON maps and slices.
func plain(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestObjectsAreOnlyRead makes tables of every kind in every form.
func TestObjectsAreOnlyRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all := resources()
	for _, file := range files {
		is := read(t, file)
		r := all[schema.GroupVersionResource{Group: is.Group, Version: is.Version, Resource: is.Resource}]
		objects, before := is.objects(t, r), is.objects(t, r)
		for _, include := range []metav1.IncludeObjectPolicy{
			"", metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject,
		} {
			if _, err := table.New(r, is.List.Metadata, objects, is.Now,
				metav1.TableOptions{IncludeObject: include}); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(before, objects) {
				t.Errorf("%s, includeObject=%q: objects were changed", file, include)
			}
		}
		if len(objects) == 0 {
			t.Errorf("%s: no objects", file)
		}
	}
}
