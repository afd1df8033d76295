package apiserver_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestClaimsComeBackAsTheServerHasThem creates, reads, updates, patches, lists and deletes claims
// through the typed client, and compares the results with those of the client without
// serialization.
func TestClaimsComeBackAsTheServerHasThem(t *testing.T) {
	eachWay(t, func(t *testing.T, w world) {
		ctx, claims := t.Context(), w.client.CoreV1().PersistentVolumeClaims("default")
		direct := w.server.Client(direct).CoreV1().PersistentVolumeClaims("default")
		same := func(got *corev1.PersistentVolumeClaim) {
			t.Helper()
			want := testcheck.Must(direct.Get(ctx, "a", metav1.GetOptions{}))
			wire, _ := json.Marshal(want)
			want = &corev1.PersistentVolumeClaim{}
			if err := json.Unmarshal(wire, want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
		of := testcheck.Must[*corev1.PersistentVolumeClaim]
		same(of(claims.Create(ctx, newClaim("a"), metav1.CreateOptions{})))
		got := of(claims.Get(ctx, "a", metav1.GetOptions{}))
		same(got)
		got.Labels["x"] = "y"
		same(of(claims.Update(ctx, got, metav1.UpdateOptions{})))
		_, err := claims.Update(ctx, got, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			t.Errorf("a stale update: got %v, want a conflict", err)
		}
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			got = of(claims.Get(ctx, "a", metav1.GetOptions{}))
			got.Status.Phase = corev1.ClaimBound
			_, err := claims.UpdateStatus(ctx, got, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for pt, body := range map[types.PatchType]string{
			types.JSONPatchType:           `[{"op":"add","path":"/metadata/labels/json","value":"1"}]`,
			types.MergePatchType:          `{"metadata":{"labels":{"merge":"1"}}}`,
			types.StrategicMergePatchType: `{"metadata":{"labels":{"strategic":"1"}}}`,
		} {
			same(of(claims.Patch(ctx, "a", pt, []byte(body), metav1.PatchOptions{})))
		}
		list := testcheck.Must(claims.List(ctx,
			metav1.ListOptions{LabelSelector: "strategic=1"}))
		if len(list.Items) != 1 || list.ResourceVersion == "" {
			t.Fatalf("list: got %v", list)
		}
		same(&list.Items[0])
		if err := claims.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		got = of(claims.Get(ctx, "a", metav1.GetOptions{}))
		if got.DeletionTimestamp == nil {
			t.Error("the finalizer did not keep the claim")
		}
		same(got)
	})
}

// TestPatchThatCannotBeMerged sends a patch with which the library's merge panics.
func TestPatchThatCannotBeMerged(t *testing.T) {
	eachWay(t, func(t *testing.T, w world) {
		claims := w.client.CoreV1().PersistentVolumeClaims("default")
		testcheck.Must(claims.Create(t.Context(), newClaim("a"), metav1.CreateOptions{}))
		patch := `{"metadata":{"$setElementOrder/managedFields":[{}],"managedFields":[]}}`
		_, err := claims.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if !apierrors.IsBadRequest(err) {
			t.Errorf("got %v, want 400", err)
		}
		testcheck.Must(claims.Get(t.Context(), "a", metav1.GetOptions{})) // the server still serves
	})
}

// TestPodsAreBoundAndEvicted uses the subresources that can only be created, and deletes a
// collection.
func TestPodsAreBoundAndEvicted(t *testing.T) {
	eachWay(t, func(t *testing.T, w world) {
		ctx, pods := t.Context(), w.client.CoreV1().Pods("default")
		for _, name := range []string{"a", "b"} {
			testcheck.Must(pods.Create(ctx, newPod(name), metav1.CreateOptions{}))
		}
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: corev1.ObjectReference{Name: "n1"}}
		if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("bound twice: got %v, want a conflict", err)
		}
		if got := testcheck.Must(pods.Get(ctx, "a", metav1.GetOptions{})); got.Spec.NodeName != "n1" {
			t.Errorf("node: got %q, want n1", got.Spec.NodeName)
		}
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"}}
		if err := pods.EvictV1(ctx, eviction); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Get(ctx, "b", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("evicted: got %v, want not found", err)
		}
		if err := pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := testcheck.Must(pods.List(ctx, metav1.ListOptions{})); len(got.Items) != 0 {
			t.Errorf("left: %d pods", len(got.Items))
		}
	})
}

// TestAWatchReportsChanges watches from a list on until it is stopped.
func TestAWatchReportsChanges(t *testing.T) {
	eachWay(t, func(t *testing.T, w world) {
		ctx, claims := t.Context(), w.client.CoreV1().PersistentVolumeClaims("default")
		testcheck.Must(claims.Create(ctx, newClaim("a"), metav1.CreateOptions{}))
		events := testcheck.Must(claims.Watch(ctx, metav1.ListOptions{
			SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			AllowWatchBookmarks: true,
		}))
		testcheck.Must(claims.Create(ctx, newClaim("b"), metav1.CreateOptions{}))
		var got []string
		for range 3 {
			e := <-events.ResultChan()
			got = append(got, string(e.Type)+" "+e.Object.(metav1.Object).GetName())
		}
		if diff := cmp.Diff([]string{"ADDED a", "BOOKMARK ", "ADDED b"}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		events.Stop()
		for range events.ResultChan() { // it is closed
			continue
		}
	})
}
