package snapshotapi_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// parsedDefinitions returns the definitions by kind.
func parsedDefinitions(t *testing.T) map[string]apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all := map[string]apiextensionsv1.CustomResourceDefinition{}
	for text := range strings.SplitSeq(snapshotapi.Definitions(), "\n---\n") {
		var d apiextensionsv1.CustomResourceDefinition
		testcheck.NoError(t, yaml.Unmarshal([]byte(text), &d))
		all[d.Spec.Names.Kind] = d
	}
	return all
}

// TestTypesHaveAllFields compares the types with the schemas of version v1: an update would lose a field
// that a type lacks.
func TestTypesHaveAllFields(t *testing.T) {
	definitions := parsedDefinitions(t)
	for kind, typed := range map[string]any{
		"VolumeSnapshot":             snapshotapi.VolumeSnapshot{},
		"VolumeSnapshotContent":      snapshotapi.VolumeSnapshotContent{},
		"VolumeSnapshotClass":        snapshotapi.VolumeSnapshotClass{},
		"VolumeGroupSnapshot":        snapshotapi.VolumeGroupSnapshot{},
		"VolumeGroupSnapshotContent": snapshotapi.VolumeGroupSnapshotContent{},
		"VolumeGroupSnapshotClass":   snapshotapi.VolumeGroupSnapshotClass{},
	} {
		versions := definitions[kind].Spec.Versions
		at := slices.IndexFunc(versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1" })
		if at < 0 {
			t.Errorf("%s: no version v1", kind)
			continue
		}
		compareFields(t, kind, reflect.TypeOf(typed), *versions[at].Schema.OpenAPIV3Schema)
	}
}

// compareFields compares the fields of a struct with the properties of a schema, and theirs. Types of
// other packages are not compared.
func compareFields(t *testing.T, path string, typed reflect.Type, schema apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for typed.Kind() == reflect.Pointer {
		typed = typed.Elem()
	}
	if typed.Kind() == reflect.Slice && schema.Items != nil {
		compareFields(t, path+"[]", typed.Elem(), *schema.Items.Schema)
		return
	}
	if typed.Kind() != reflect.Struct || !strings.HasSuffix(typed.PkgPath(), "/internal/snapshotapi") {
		return
	}
	fields := map[string]reflect.Type{}
	for field := range typed.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // TypeMeta
			fields["apiVersion"], fields["kind"] = nil, nil
			continue
		}
		fields[name] = field.Type
	}
	if got, want := slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, want) {
		t.Errorf("%s: fields %v, properties %v", path, got, want)
	}
	for name, each := range fields {
		if each != nil {
			compareFields(t, path+"."+name, each, schema.Properties[name])
		}
	}
}

// TestClient makes each request, and reads the results from a cache.
func TestClient(t *testing.T) {
	s := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	testcheck.NoError(t, definitions.InstallText(t.Context(), s, snapshotapi.Definitions()))
	caller := testworld.ImmediateCaller(func() time.Time { return sim.Epoch })
	client := snapshotapi.Snapshots.Client(s.Client(caller).Dynamic())
	ctx, claim := t.Context(), "data"

	made, err := client.Create(ctx, &snapshotapi.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
		Spec:       snapshotapi.SnapshotSpec{Source: snapshotapi.SnapshotSource{PersistentVolumeClaimName: &claim}},
	})
	testcheck.NoError(t, err)
	ready := true
	made.Status = &snapshotapi.SnapshotStatus{ReadyToUse: &ready}
	made.Labels = map[string]string{"not": "in a status"}
	made, err = client.UpdateStatus(ctx, made)
	testcheck.NoError(t, err)
	made.Finalizers = []string{"example.com/kept"}
	_, err = client.Update(ctx, made)
	testcheck.NoError(t, err)
	_, err = client.Patch(ctx, "default", "b", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"1"}}}`))
	testcheck.NoError(t, err)
	got, err := client.Get(ctx, "default", "b")
	testcheck.NoError(t, err)
	if got.Status == nil || !*got.Status.ReadyToUse || len(got.Labels) > 0 || got.Annotations["a"] != "1" || len(got.Finalizers) != 1 ||
		*got.Spec.Source.PersistentVolumeClaimName != claim || got.Kind != "VolumeSnapshot" {
		t.Errorf("got %+v", got)
	}
	if stored, ok := s.Get(snapshotapi.Snapshots.CommitName(), "default", "b"); !ok ||
		testcheck.Must(snapshotapi.Snapshots.Parse(stored)).UID != got.UID {
		t.Errorf("stored: %v, %v", stored, ok)
	}
	testcheck.NoError(t, client.Delete(ctx, "default", "b", metav1.DeleteOptions{}))
	if got, err = client.Get(ctx, "default", "b"); err != nil || got.DeletionTimestamp == nil {
		t.Errorf("a deleted object with a finalizer: %v, %v", got, err)
	}
	got.Finalizers = nil
	_, err = client.Update(ctx, got)
	testcheck.NoError(t, err)
	if _, err = client.Get(ctx, "default", "b"); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer: %v", err)
	}
	if _, err = client.Create(ctx, &snapshotapi.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "none"},
	}); !apierrors.IsInvalid(err) {
		t.Errorf("a snapshot without a source: %v", err)
	}
}

// TestParse has an object that the type cannot hold, and none that is unstructured.
func TestParse(t *testing.T) {
	u := snapshotapi.Classes.Unstructured(&snapshotapi.VolumeSnapshotClass{Driver: "d", DeletionPolicy: snapshotapi.Retain})
	if class, err := snapshotapi.Classes.Parse(u); err != nil || class.Driver != "d" || class.APIVersion != "snapshot.storage.k8s.io/v1" {
		t.Errorf("got %+v, %v", class, err)
	}
	u.Object["driver"] = map[string]any{}
	if _, err := snapshotapi.Classes.Parse(u); err == nil || !strings.HasPrefix(err.Error(), "VolumeSnapshotClass: ") {
		t.Errorf("an object as driver: %v", err)
	}
	if _, err := snapshotapi.Classes.Parse("text"); err == nil || err.Error() != "VolumeSnapshotClass: object of type string is not unstructured" {
		t.Errorf("a text: %v", err)
	}
}
