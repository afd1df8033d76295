package openapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	models "k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/kube-openapi/pkg/util/proto/validation"

	"github.com/volsim/volsim/fake/internal/openapi"
)

// parsed decodes version 2 as clients do: from protobuf.
func parsed(t *testing.T) models.Models {
	t.Helper()
	body, _ := openapi.New(served()).V2("application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
	doc := &openapi_v2.Document{}
	if err := proto.Unmarshal(body, doc); err != nil {
		t.Fatal(err)
	}
	all, err := models.NewOpenAPIData(doc)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// modelOf returns the model of a kind by its extension, as kubectl does.
func modelOf(all models.Models, group, version, kind string) models.Schema {
	for _, name := range all.ListModels() {
		s := all.LookupModel(name)
		kinds, _ := s.GetExtensions()["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			is := fmt.Sprint(k)
			if strings.Contains(is, "group:"+group+" ") && strings.Contains(is, "kind:"+kind+" ") &&
				strings.Contains(is, "version:"+version+"]") {
				return s
			}
		}
	}
	return nil
}

func TestEveryKindHasAModel(t *testing.T) {
	all := parsed(t)
	for _, r := range served() {
		if modelOf(all, r.Group, r.Version, r.Kind) == nil {
			t.Errorf("%s/%s %s: no model", r.Group, r.Version, r.Kind)
		}
		if slices.Contains(r.Verbs, "list") && r.Custom == nil &&
			modelOf(all, r.Group, r.Version, r.Kind+"List") == nil {
			t.Errorf("%s/%s %sList: no model", r.Group, r.Version, r.Kind)
		}
	}
}

func TestModelsFindErrors(t *testing.T) {
	all := parsed(t)
	for _, tc := range []struct {
		name, group, kind string
		obj               string
		want              []string
	}{
		{
			name: "a claim", kind: "PersistentVolumeClaim",
			obj: `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "labels": {"a": "b"}}, "spec":
				{"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}}`,
		},
		{
			name: "a quantity that is a number", kind: "PersistentVolumeClaim",
			obj: `{"spec": {"resources": {"requests": {"storage": 1}}}}`,
		},
		{
			name: "an unknown field", kind: "PersistentVolumeClaim",
			obj:  `{"spec": {"storageClass": "fast"}}`,
			want: []string{`ValidationError(PersistentVolumeClaim.spec): unknown field "storageClass" in io.k8s.api.core.v1.PersistentVolumeClaimSpec`},
		},
		{
			name: "a list that is none", kind: "PersistentVolumeClaim",
			obj: `{"spec": {"accessModes": "ReadWriteOnce"}}`,
			want: []string{
				`ValidationError(PersistentVolumeClaim.spec.accessModes): invalid type for io.k8s.api.core.v1.PersistentVolumeClaimSpec.accessModes: ` +
					`got "string", expected "array"`,
			},
		},
		{
			name: "required fields", group: "storage.k8s.io", kind: "VolumeAttachment",
			obj: `{"spec": {"attacher": "d"}}`,
			want: []string{
				`ValidationError(VolumeAttachment.spec): missing required field "source" in io.k8s.api.storage.v1.VolumeAttachmentSpec`,
				`ValidationError(VolumeAttachment.spec): missing required field "nodeName" in io.k8s.api.storage.v1.VolumeAttachmentSpec`,
			},
		},
		{
			name: "fields that are optional without omitempty", group: "apps", kind: "StatefulSet",
			obj: `{"spec": {"selector": {}, "template": {}}}`,
		},
		{
			name: "an int or a string", group: "policy", kind: "PodDisruptionBudget",
			obj: `{"spec": {"minAvailable": 1, "maxUnavailable": "10%"}}`,
		},
		{
			name: "a custom object", group: "example.com", kind: "Gadget",
			obj: `{"metadata": {"name": "g"}, "a": "abc", "spec": {"count": 1, "s": 3, "any": {"x": [1]}, "obj": {"y": 1}, "m": {"k": "v"}, "z": null}}`,
		},
		{
			name: "a custom object of another form", group: "example.com", kind: "Gadget",
			obj: `{"a": "abc", "spec": {"count": "many", "more": 1}}`,
			want: []string{
				`ValidationError(Gadget.spec.count): invalid type for com.example.v1.Gadget.spec.count: got "string", expected "integer"`,
				`ValidationError(Gadget.spec): unknown field "more" in com.example.v1.Gadget.spec`,
			},
		},
		{
			name: "a custom object with models of its own", group: "trees.example.com", kind: "Tree",
			obj:  `{"root": {"twigs": [{"twigs": [], "leaf": {"x": 1}}, {"twig": []}]}}`,
			want: []string{`ValidationError(Tree.root.twigs[1]): unknown field "twig" in com.example.trees.v1.Branch`},
		},
		{
			name: "a custom object without a schema", group: "loose.example.com", kind: "Anything",
			obj: `{"metadata": {"name": "x"}, "whatever": {"a": [1, "b"]}}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var obj any
			unmarshal(t, []byte(tc.obj), &obj)
			var got []string
			for _, err := range validation.ValidateModel(obj, modelOf(all, tc.group, "v1", tc.kind), tc.kind) {
				got = append(got, err.Error())
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tc.want) {
				t.Errorf("got %q\nwant %q", got, tc.want)
			}
		})
	}
}

// TestDocumentsSayHowToMerge builds the types for server-side apply from version 3, as clients do.
func TestDocumentsSayHowToMerge(t *testing.T) {
	d := openapi.New(served())
	for _, tc := range []struct {
		path string
		obj  any
		want string
	}{
		{
			"api/v1", &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"a/b"}},
				Spec:       corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data"}}},
			}, `.spec.volumes[name="data"].name`,
		},
		{
			"apis/example.com/v1", map[string]any{
				"apiVersion": "example.com/v1", "kind": "Gadget",
				"spec": map[string]any{"l": []any{map[string]any{"k": "x"}}},
			}, `.spec.l[k="x"].k`,
		},
	} {
		t.Run(tc.path, func(t *testing.T) {
			body, _ := d.V3(tc.path)
			doc := &spec3.OpenAPI{}
			if err := json.Unmarshal(body, doc); err != nil {
				t.Fatal(err)
			}
			converter, err := managedfields.NewTypeConverter(doc.Components.Schemas, false)
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(tc.obj)
			if err != nil {
				t.Fatal(err)
			}
			u := &unstructured.Unstructured{}
			unmarshal(t, data, &u.Object)
			typed, err := converter.ObjectToTyped(u)
			if err != nil {
				t.Fatal(err)
			}
			set, err := typed.ToFieldSet()
			if err != nil {
				t.Fatal(err)
			}
			if got := set.String(); !strings.Contains(got, tc.want) {
				t.Errorf("got %s\nwant %s in it", got, tc.want)
			}
		})
	}
}
