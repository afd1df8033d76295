package fake_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
)

// refusedWell fails unless an error is an API error that blames the request. A request for a future
// revision is a timeout.
func refusedWell(t *testing.T, what string, err error, also ...int32) {
	t.Helper()
	if err == nil {
		return
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("%s: not an API error: %v", what, err)
	}
	code := status.Status().Code
	for _, c := range also {
		if c == code {
			return
		}
	}
	if code < 400 || code > 499 {
		t.Fatalf("%s: %d: %v", what, code, err)
	}
}

// fuzzed returns a server with a claim and a pod.
func fuzzed(tb testing.TB) (*fake.Clientset, context.Context) {
	tb.Helper()
	_, c := newServer(tb)
	ctx := tb.Context()
	if _, err := c.CoreV1().PersistentVolumeClaims("default").Create(ctx, newClaim("a"), metav1.CreateOptions{}); err != nil {
		tb.Fatal(err)
	}
	if _, err := c.CoreV1().Pods("default").Create(ctx, newPod("p", on("n")), metav1.CreateOptions{}); err != nil {
		tb.Fatal(err)
	}
	return c, ctx
}

func FuzzSelectors(f *testing.F) {
	for _, seed := range [][2]string{
		{"a=b", "metadata.name=a"},
		{"a in (b, c),!d", "spec.nodeName!=n,status.phase=Running"},
		{"a notin (b),c,d>5", `metadata.name=a\=b`},
		{"a in", "a"},
		{",", "=,="},
		{"!", `\`},
	} {
		f.Add(seed[0], seed[1])
	}
	c, ctx := fuzzed(f)
	f.Fuzz(func(t *testing.T, labels, fields string) {
		for _, opts := range []metav1.ListOptions{{LabelSelector: labels}, {FieldSelector: fields}} {
			_, err := c.CoreV1().Pods("").List(ctx, opts)
			refusedWell(t, "pods", err)
			_, err = c.EventsV1().Events("").List(ctx, opts)
			refusedWell(t, "events", err)
			stream, err := c.CoreV1().PersistentVolumeClaims("").Watch(ctx, opts)
			refusedWell(t, "watch", err)
			if err == nil {
				stream.Stop()
			}
		}
	})
}

func FuzzContinue(f *testing.F) {
	c, ctx := fuzzed(f)
	for i := range 3 {
		claim := newClaim("b", func(c *claim) { c.Name += string(rune('a' + i)) })
		if _, err := c.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			f.Fatal(err)
		}
	}
	list, err := c.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(list.Continue)
	f.Add("e30")
	f.Add("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9")
	f.Fuzz(func(t *testing.T, token string) {
		_, err := c.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{Limit: 1, Continue: token})
		refusedWell(t, "list", err)
	})
}

func FuzzResourceVersion(f *testing.F) {
	for _, seed := range []string{"", "0", "5", "-1", "abc", "99999999999999999999", "0x10", " 5"} {
		f.Add(seed, "", true)
		f.Add(seed, "Exact", false)
		f.Add(seed, "NotOlderThan", true)
	}
	c, ctx := fuzzed(f)
	claims := c.CoreV1().PersistentVolumeClaims("default")
	// For a malformed number in a get, an update or a watch the real server answers 500.
	const own, later = 500, 504
	f.Fuzz(func(t *testing.T, revision, match string, initial bool) {
		opts := metav1.ListOptions{ResourceVersion: revision, ResourceVersionMatch: metav1.ResourceVersionMatch(match)}
		_, err := claims.Get(ctx, "a", metav1.GetOptions{ResourceVersion: revision})
		refusedWell(t, "get", err, own, later)
		_, err = claims.List(ctx, opts)
		refusedWell(t, "list", err, later)
		if initial {
			opts.SendInitialEvents = &initial
		}
		stream, err := claims.Watch(ctx, opts)
		refusedWell(t, "watch", err, own, later)
		if err == nil {
			stream.Stop()
		}
		_, err = claims.Update(ctx, newClaim("a", func(c *claim) { c.ResourceVersion = revision }), metav1.UpdateOptions{})
		refusedWell(t, "update", err, own)
	})
}

func FuzzPatchOfClaimsAndPods(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `7`, `{"metadata":null}`, `{"metadata":{"finalizers":null,"labels":{"a":"b"}}}`,
		`{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}`, `{"$patch":"replace"}`, `{"spec":null}`, `{"status":[]}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"],"$setElementOrder/finalizers":[]}}`,
		`[{"op":"replace","path":"/metadata/annotations","value":{}}]`, `[{"op":"remove","path":""}]`,
		`[{"op":"add","path":"/metadata/finalizers/-","value":1}]`, `[{"op":"copy","from":"/spec","path":"/status"}]`,
		`[{"op":"test","path":"/spec/volumes/0/name","value":null},{"op":"move","from":"/a","path":"/b"}]`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"x"}]}}`,
		`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a","resourceVersion":"x"}}`,
	} {
		for kind := range patchTypes {
			f.Add([]byte(seed), kind, false)
		}
		f.Add([]byte(seed), 0, true)
	}
	f.Fuzz(func(t *testing.T, patch []byte, kind int, status bool) {
		c, ctx := fuzzed(t)
		pt := patchTypes[(kind%len(patchTypes)+len(patchTypes))%len(patchTypes)]
		opts := metav1.PatchOptions{FieldManager: "me"}
		var sub []string
		if status {
			sub = []string{"status"}
		}
		// The real server answers 500 for a malformed resourceVersion, and for an applied field
		// that is not in the schema.
		_, err := c.CoreV1().PersistentVolumeClaims("default").Patch(ctx, "a", pt, patch, opts, sub...)
		refusedWell(t, "claim", err, 500)
		_, err = c.CoreV1().Pods("default").Patch(ctx, "p", pt, patch, opts, sub...)
		refusedWell(t, "pod", err, 500)
		for _, name := range []corev1.ResourceName{corev1.ResourceStorage} {
			claims, err := c.CoreV1().PersistentVolumeClaims("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, is := range claims.Items {
				if q := is.Spec.Resources.Requests[name]; q.Sign() <= 0 {
					t.Fatalf("claim %s wants %s", is.Name, q.String())
				}
			}
		}
	})
}

var patchTypes = []types.PatchType{
	types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType,
	types.ApplyPatchType,
}
