package fake_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPatch(t *testing.T) {
	for _, test := range []struct {
		name  string
		kind  types.PatchType
		patch string
		want  string // labels and finalizers
		is    func(error) bool
		says  string
	}{
		{
			name: "merge", kind: types.MergePatchType, patch: `{"metadata":{"labels":{"app":null,"n":"1"}}}`,
			want: "n=1 kubernetes.io/pvc-protection",
		},
		{
			name: "merge replaces lists", kind: types.MergePatchType, patch: `{"metadata":{"finalizers":["a/b"]}}`,
			want: "app=db a/b",
		},
		{
			name: "strategic merges lists", kind: types.StrategicMergePatchType, patch: `{"metadata":{"finalizers":["a/b"]}}`,
			want: "app=db a/b kubernetes.io/pvc-protection",
		},
		{
			name: "strategic takes out of lists", kind: types.StrategicMergePatchType,
			patch: `{"metadata":{"$deleteFromPrimitiveList/finalizers":["kubernetes.io/pvc-protection"],"$setElementOrder/finalizers":[]}}`, want: "app=db ",
		},
		{
			name: "json", kind: types.JSONPatchType, patch: `[{"op":"add","path":"/metadata/finalizers/-","value":"a/b"}]`,
			want: "app=db kubernetes.io/pvc-protection a/b",
		},
		{
			name: "json replaces what is missing", kind: types.JSONPatchType,
			patch: `[{"op":"replace","path":"/metadata/annotations","value":{"x":"y"}}]`, want: "app=db kubernetes.io/pvc-protection",
		},
		{
			name: "json tests for null what is missing", kind: types.JSONPatchType,
			patch: `[{"op":"test","path":"/metadata/annotations","value":null}]`, want: "app=db kubernetes.io/pvc-protection",
		},
		{
			name: "json test fails", kind: types.JSONPatchType, patch: `[{"op":"test","path":"/metadata/name","value":"b"}]`,
			is: apierrors.IsInvalid, says: "the server rejected our request due to an error in our request",
		},
		{
			name: "json removes what is missing", kind: types.JSONPatchType,
			patch: `[{"op":"remove","path":"/metadata/annotations"}]`, is: apierrors.IsInvalid, says: "the server rejected our request",
		},
		{
			name: "json adds to a missing list", kind: types.JSONPatchType,
			patch: `[{"op":"add","path":"/metadata/ownerReferences/-","value":{}}]`, is: apierrors.IsInvalid, says: "the server rejected our request",
		},
		{name: "no json", kind: types.MergePatchType, patch: `{`, is: apierrors.IsBadRequest, says: ""},
		{
			name: "wrong type", kind: types.MergePatchType, patch: `{"spec":{"accessModes":1}}`, is: apierrors.IsInvalid,
			says: "cannot unmarshal",
		},
		{
			name: "another name", kind: types.MergePatchType, patch: `{"metadata":{"name":"b"}}`, is: apierrors.IsBadRequest,
			says: "the name of the object (b) does not match the name on the URL (a)",
		},
		{
			name: "another UID", kind: types.MergePatchType, patch: `{"metadata":{"uid":"b"}}`, is: apierrors.IsInvalid,
			says: "metadata.uid: Invalid value: \"b\": field is immutable",
		},
		{
			name: "stale", kind: types.StrategicMergePatchType, patch: `{"metadata":{"resourceVersion":"1"}}`,
			is: apierrors.IsConflict, says: "the object has been modified",
		},
		{
			name: "status through main", kind: types.MergePatchType, patch: `{"status":{"phase":"Bound"}}`,
			want: "app=db kubernetes.io/pvc-protection",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.create("a")
			c, err := w.claims.Patch(w.ctx, "a", test.kind, []byte(test.patch), metav1.PatchOptions{})
			if test.is != nil {
				expectError(t, err, test.is, test.says)
				return
			}
			expect(t, err, nil)
			got := ""
			for k, v := range c.Labels {
				got += k + "=" + v + " "
			}
			expect(t, got+strings.Join(c.Finalizers, " "), test.want)
			expect(t, c.Status.Phase, corev1.ClaimPending)
		})
	}
}

func TestPatchStatus(t *testing.T) {
	w := newWorld(t)
	w.create("a")
	c := w.patch("a", `{"spec":{"volumeName":"x"},"status":{"phase":"Bound"},"metadata":{"annotations":{"x":"y"}}}`, "status")
	expect(t, []string{string(c.Status.Phase), c.Spec.VolumeName, c.Annotations["x"]}, []string{"Bound", "", "y"})
	_, err := w.claims.Patch(w.ctx, "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "scale")
	expectError(t, err, apierrors.IsNotFound, "the server could not find the requested resource")

	nodes := w.client.CoreV1().Nodes()
	must[*corev1.Node](t)(nodes.Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}))
	must[*corev1.Node](t)(nodes.PatchStatus(w.ctx, "n",
		[]byte(`{"status":{"volumesAttached":[{"name":"v","devicePath":""}]}}`)))
	n := must[*corev1.Node](t)(nodes.PatchStatus(w.ctx, "n", []byte(`{"status":{"volumesInUse":["v"]}}`)))
	expect(t, n.Status, corev1.NodeStatus{
		VolumesAttached: []corev1.AttachedVolume{{Name: "v"}}, VolumesInUse: []corev1.UniqueVolumeName{"v"},
	})
}

func TestPatchOfADeletedObjectsFinalizersRemovesIt(t *testing.T) {
	w := newWorld(t)
	volumes := w.client.CoreV1().PersistentVolumes()
	must[*volume](t)(volumes.Create(w.ctx, newVolume("v"), metav1.CreateOptions{}))
	expect(t, volumes.Delete(w.ctx, "v", metav1.DeleteOptions{}), nil)
	v := must[*volume](t)(volumes.Patch(w.ctx, "v", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["kubernetes.io/pv-protection"]}}`), metav1.PatchOptions{}))
	expect(t, v.Name, "v")
	_, ok := w.server.Get("persistentvolumes", "", "v")
	expect(t, ok, false)
}
