package table_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/table"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func TestRowsHaveTheirObjects(t *testing.T) {
	claims := resources()[corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")]
	custom := resources()[schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}]
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "c", Namespace: "n", Labels: map[string]string{"a": "b"},
	}}
	thing := &fake.CustomObject{
		ObjectMeta: metav1.ObjectMeta{Name: "x"}, Content: map[string]any{"spec": map[string]any{"size": int64(1)}},
	}
	for _, tc := range []struct {
		name     string
		resource fake.APIResource
		obj      fake.Object
		include  metav1.IncludeObjectPolicy
		want     string
	}{
		{"none", claims, claim, metav1.IncludeNone, `null`},
		{
			"by default its metadata", claims, claim, "",
			`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"c","namespace":"n","labels":{"a":"b"}}}`,
		},
		{
			"metadata", claims, claim, metav1.IncludeMetadata,
			`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"c","namespace":"n","labels":{"a":"b"}}}`,
		},
		{
			"object", claims, claim, metav1.IncludeObject,
			`{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"c","namespace":"n","labels":{"a":"b"}},"spec":{"resources":{}},"status":{}}`,
		},
		{
			"custom object", custom, thing, metav1.IncludeObject,
			`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{"size":1}}`,
		},
		{
			"metadata of a custom object", custom, thing, metav1.IncludeMetadata,
			`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x"}}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			created, err := table.New(tc.resource, metav1.ListMeta{}, []fake.Object{tc.obj}, now,
				metav1.TableOptions{IncludeObject: tc.include})
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(created.Rows[0].Object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownIncludeObjectIsABadRequest(t *testing.T) {
	_, err := table.New(fake.APIResource{}, metav1.ListMeta{}, nil, now, metav1.TableOptions{IncludeObject: "Foo"})
	want := "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must be 'Metadata', 'Object', 'None', or empty"
	if !apierrors.IsBadRequest(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNoHeaders(t *testing.T) {
	pods := resources()[corev1.SchemeGroupVersion.WithResource("pods")]
	meta := metav1.ListMeta{ResourceVersion: "7", Continue: "more"}
	created, err := table.New(pods, meta, []fake.Object{&corev1.Pod{}}, now, metav1.TableOptions{NoHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	if created.ColumnDefinitions != nil || len(created.Rows) != 1 || created.ListMeta != meta {
		t.Errorf("got %v", created)
	}
}

func TestScaleHasItsOwnColumns(t *testing.T) {
	sets := resources()[appsv1.SchemeGroupVersion.WithResource("statefulsets")]
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "s", CreationTimestamp: ago(3 * time.Minute)},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Replicas: 2},
	}
	created, err := table.New(sets, metav1.ListMeta{}, []fake.Object{scale}, now,
		metav1.TableOptions{IncludeObject: metav1.IncludeObject})
	if err != nil {
		t.Fatal(err)
	}
	var heads []string
	for _, c := range created.ColumnDefinitions {
		heads = append(heads, c.Name)
	}
	if diff := cmp.Diff([]string{"Name", "Desired", "Available", "Age"}, heads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"s", int64(3), int64(2), "3m"}, created.Rows[0].Cells); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := created.Rows[0].Object.Object.GetObjectKind().GroupVersionKind(); got != autoscalingv1.SchemeGroupVersion.WithKind("Scale") {
		t.Errorf("got %v", got)
	}
}

func TestAges(t *testing.T) {
	namespaces := resources()[corev1.SchemeGroupVersion.WithResource("namespaces")]
	for _, tc := range []struct {
		created metav1.Time
		want    string
	}{
		{metav1.Time{}, "<unknown>"},
		{ago(0), "0s"},
		{ago(-time.Second), "0s"},
		{ago(-time.Hour), "<invalid>"},
		{ago(119 * time.Second), "119s"},
		{ago(3*time.Minute + 4*time.Second), "3m4s"},
		{ago(26 * time.Hour), "26h"},
		{ago(400 * 24 * time.Hour), "400d"},
	} {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: tc.created}}
		created, err := table.New(namespaces, metav1.ListMeta{}, []fake.Object{n}, now, metav1.TableOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := created.Rows[0].Cells[2]; got != tc.want {
			t.Errorf("created %v: got %v, want %v", tc.created, got, tc.want)
		}
	}
}

func TestColumnsEndAtAnInvalidPath(t *testing.T) {
	r := fake.APIResource{Custom: &fake.CustomKind{Columns: func(string) []fake.Column {
		return []fake.Column{column("A", "string", ".a"), column("B", "string", ".b["), column("C", "string", ".c")}
	}}}
	obj := &fake.CustomObject{Content: map[string]any{"a": "x", "c": "y"}}
	created, err := table.New(r, metav1.ListMeta{}, []fake.Object{obj}, now, metav1.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"", "x"}, created.Rows[0].Cells); diff != "" || len(created.ColumnDefinitions) != 2 {
		t.Errorf("%d columns, (-want +got):\n%s", len(created.ColumnDefinitions), diff)
	}
}
