package fake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

func ExampleNewClientset() {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "shop"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	client := fake.NewClientset(claim)

	claims, ctx := client.CoreV1().PersistentVolumeClaims("shop"), context.Background()
	first, err := claims.Get(ctx, "data", metav1.GetOptions{})
	fmt.Println(first.Spec.VolumeName, first.Status.Phase, err)

	second := first.DeepCopy()
	first.Labels = map[string]string{"app": "db"}
	_, err = claims.Update(ctx, first, metav1.UpdateOptions{})
	fmt.Println(err)
	_, err = claims.Update(ctx, second, metav1.UpdateOptions{})
	fmt.Println(err)
	// Output:
	// pv-1 Bound <nil>
	// <nil>
	// Operation cannot be fulfilled on persistentvolumeclaims "data": the object has been modified; please apply your changes to the latest version and try again
}

func TestAddKeepsFields(t *testing.T) {
	at := metav1.NewTime(sim.Epoch.Add(-time.Hour))
	s, c := newServer(t)
	given := newClaim("x", func(c *corev1.PersistentVolumeClaim) {
		c.Namespace, c.UID, c.ResourceVersion, c.CreationTimestamp = "far", "my-uid", "4711", at
		c.Finalizers, c.DeletionTimestamp = []string{"example.com/stay"}, &at
		c.Status.Phase = corev1.ClaimLost
	})
	if err := s.Add(given); err != nil {
		t.Fatal(err)
	}
	got, err := c.CoreV1().PersistentVolumeClaims("far").Get(context.Background(), "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := given.DeepCopy()
	want.ResourceVersion = got.ResourceVersion
	want.CreationTimestamp.Time, want.DeletionTimestamp.Time = at.UTC(), at.UTC()
	mode := corev1.PersistentVolumeFilesystem
	want.Spec.VolumeMode = &mode
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.ResourceVersion == "4711" {
		t.Error("the given resourceVersion was kept")
	}
	if _, ok := s.Get("namespaces", "", "far"); !ok {
		t.Error("the namespace was not created")
	}
}

func TestAddSetsMissingFields(t *testing.T) {
	s, _ := newServer(t)
	if err := s.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "nonsense"}}); err != nil {
		t.Fatal(err)
	}
	obj, ok := s.Get("nodes", "", "n")
	if !ok || obj.GetUID() == "" || obj.GetResourceVersion() == "" || !obj.GetCreationTimestamp().Time.Equal(sim.Epoch) {
		t.Errorf("got %+v, want UID, resourceVersion and creationTimestamp", obj)
	}
}

func TestAddAccepts(t *testing.T) {
	tests := []struct {
		name     string
		seed     runtime.Object
		resource string
		want     []string
	}{
		{"typed", &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, "storageclasses", []string{"a"}},
		{
			"list", &corev1.NodeList{Items: []corev1.Node{
				{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
				{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
			}},
			"nodes",
			[]string{"a", "b"},
		},
		{
			"unstructured", &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "a"},
			}}, "nodes", []string{"a"},
		},
		{
			"namespace that is there", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name:   "default",
				Labels: map[string]string{"a": "b"},
			}},
			"namespaces",
			[]string{"default", "kube-node-lease", "kube-public", "kube-system"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := newServer(t)
			if err := s.Add(tt.seed); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, obj := range s.List(tt.resource) {
				got = append(got, obj.GetName())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAddErrors(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	tests := []struct {
		name  string
		seeds []runtime.Object
		want  string
	}{
		{"nil", []runtime.Object{nil}, "object 0: nil object"},
		{"typed nil", []runtime.Object{(*corev1.Node)(nil)}, "object 0: nil object"},
		{"no name", []runtime.Object{&corev1.Node{}}, "object 0: Node: name required"},
		{
			"no namespace",
			[]runtime.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}},
			`object 0: Pod "p": namespace required`,
		},
		{"twice", []runtime.Object{node, node}, `object 1: nodes "n" already exists`},
		{"unknown kind", []runtime.Object{&metav1.Status{}}, "object 0: *v1.Status /, Kind=: kind not served"},
		{
			"in a list",
			[]runtime.Object{&corev1.NodeList{Items: []corev1.Node{{}}}},
			"object 0: item 0: Node: name required",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := newServer(t)
			got := ""
			if err := s.Add(tt.seeds...); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestNewClientsetPanicsOnAnInvalidObject(t *testing.T) {
	defer func() {
		if got, want := fmt.Sprint(recover()), "fake: NewClientset: object 0: Node: name required"; got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	fake.NewClientset(&corev1.Node{})
}

func TestAddedObjectsAreListedBackEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9]{0,5}`), 0, 8, rapid.ID[string]).Draw(t,
			"names")
		want := map[string]*corev1.PersistentVolumeClaim{}
		var seeds []runtime.Object
		for _, name := range names {
			claim := newClaim(name)
			mode := rapid.SampledFrom([]corev1.PersistentVolumeMode{
				corev1.PersistentVolumeBlock,
				corev1.PersistentVolumeFilesystem,
			}).Draw(t, "mode")
			claim.Spec.VolumeMode = &mode
			claim.Spec.AccessModes = nil // invalid for users
			claim.Namespace = rapid.SampledFrom([]string{"default", "a", "b"}).Draw(t, "namespace")
			claim.UID = types.UID("uid-" + name)
			claim.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumeClaimPhase{
				corev1.ClaimBound,
				corev1.ClaimPending, corev1.ClaimLost,
			}).Draw(t, "phase")
			claim.Generation = rapid.Int64Range(0, 3).Draw(t, "generation")
			claim.CreationTimestamp = metav1.NewTime(sim.Epoch)
			want[name] = claim
			seeds = append(seeds, claim)
		}
		list, err := fake.NewClientset(seeds...).CoreV1().PersistentVolumeClaims("").List(context.Background(),
			metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]*corev1.PersistentVolumeClaim{}
		for i := range list.Items {
			list.Items[i].ResourceVersion = ""
			got[list.Items[i].Name] = &list.Items[i]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

// A thing is an object of a Go type that the server does not know.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Size int32 `json:"size,omitempty"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object.
func (t *thing) DeepCopyObject() runtime.Object {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// A custom object may have a Go type of its own, with its TypeMeta.
func TestAddTakesTypedCustomObjects(t *testing.T) {
	s, c := newServer(t)
	s.Install(fake.CustomKind{Group: "example.com", Versions: []string{"v1"}, Kind: "Thing", Resource: "things", Namespaced: true})
	given := &thing{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "shop", Labels: map[string]string{"x": "y"}}}
	given.Spec.Size = 3
	for _, c := range []struct{ version, want string }{
		{"", "object 0: *fake_test.thing: apiVersion and kind are empty: set its TypeMeta, or call SetGroupVersionKind"},
		{"example.com/v2", "object 0: *fake_test.thing example.com/v2, Kind=Thing: kind not served"},
		{"example.com/v1", ""},
	} {
		if given.TypeMeta = (metav1.TypeMeta{}); c.version != "" {
			given.TypeMeta = metav1.TypeMeta{APIVersion: c.version, Kind: "Thing"}
		}
		if err := s.Add(given); fmt.Sprint(err) != c.want && (err != nil || c.want != "") {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	things := c.Dynamic().Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"})
	got, err := things.Namespace("shop").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, err := unstructured.NestedInt64(got.Object, "spec", "size"); size != 3 || err != nil || got.GetLabels()["x"] != "y" {
		t.Errorf("got %v, %v", got, err)
	}
}
