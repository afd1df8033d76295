package fake_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
)

func TestListPagesShareOneSnapshot(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.create(fmt.Sprint("c", i))
	}
	var got []string
	var remaining []int64
	opts := metav1.ListOptions{Limit: 3}
	revision := ""
	for page := 0; ; page++ {
		list := testcheck.Must(w.claims.List(w.Context(), opts))
		got = append(got, names(list.Items)...)
		if revision == "" {
			revision = list.ResourceVersion
		}
		expect(t, list.ResourceVersion, revision)
		if list.Continue == "" {
			break
		}
		remaining = append(remaining, *list.RemainingItemCount)
		opts.Continue = list.Continue
		// Writes continue before, at and after the position of the list.
		w.create(fmt.Sprintf("c%d-new", page))
		w.remove(fmt.Sprint("c", 9-page))
		w.patch(fmt.Sprint("c", 4), fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, page))
	}
	expect(t, got, []string{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"})
	expect(t, remaining, []int64{7, 4, 1})
}

func TestListOptions(t *testing.T) {
	w := newWorld(t)
	w.create("a", label("n", "1")) // revision 5
	w.create("b", label("n", "2")) // 6
	w.remove("a")                  // 7, 8
	token := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	exact := metav1.ResourceVersionMatchExact
	for _, test := range []struct {
		name string
		opts metav1.ListOptions
		want []string
		rv   string
		is   func(error) bool
		says string
	}{
		{name: "newest", want: []string{"b"}, rv: "8"},
		{name: "any", opts: metav1.ListOptions{ResourceVersion: "0"}, want: []string{"b"}, rv: "8"},
		{name: "not older than", opts: metav1.ListOptions{
			ResourceVersion:      "6",
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}, want: []string{"b"}, rv: "8"},
		{
			name: "exact", opts: metav1.ListOptions{
				ResourceVersion:      "6",
				ResourceVersionMatch: exact,
			}, want: []string{"a", "b"},
			rv: "6",
		},
		{
			name: "exact before everything", opts: metav1.ListOptions{ResourceVersion: "2", ResourceVersionMatch: exact},
			rv: "2",
		},
		{name: "exact, filtered", opts: metav1.ListOptions{
			ResourceVersion: "6", ResourceVersionMatch: exact,
			LabelSelector: "n!=2",
		}, want: []string{"a"}, rv: "6"},
		{
			name: "future", opts: metav1.ListOptions{ResourceVersion: "99"}, is: apierrors.IsTimeout,
			says: "Too large resource version: 99, current: 8",
		},
		{
			name: "no number", opts: metav1.ListOptions{ResourceVersion: "abc"}, is: apierrors.IsBadRequest,
			says: "invalid resource version",
		},
		{
			name: "match without revision", opts: metav1.ListOptions{ResourceVersionMatch: exact}, is: apierrors.IsInvalid,
			says: "resourceVersionMatch is forbidden unless resourceVersion is provided",
		},
		{
			name: "initial events", opts: metav1.ListOptions{SendInitialEvents: ptr.To(true)}, is: apierrors.IsInvalid,
			says: "sendInitialEvents is forbidden for list",
		},
		{
			name: "malformed token", opts: metav1.ListOptions{Continue: "%"}, is: apierrors.IsBadRequest,
			says: "continue key is not valid",
		},
		{
			name: "token of the future", opts: metav1.ListOptions{Continue: token(`{"v":"meta.k8s.io/v1","rv":999,"start":"a"}`)},
			is: apierrors.IsTimeout, says: "Too large resource version: 999, current: ",
		},
		{
			name: "token of another version", opts: metav1.ListOptions{Continue: token(`{"v":"x"}`)}, is: apierrors.IsBadRequest,
			says: "continue key is not valid",
		},
		{
			name: "token with a revision", opts: metav1.ListOptions{Continue: token(`{}`), ResourceVersion: "5"},
			is: apierrors.IsBadRequest, says: "specifying resource version is not allowed when using continue",
		},
		{
			name: "field of a claim", opts: metav1.ListOptions{FieldSelector: "spec.volumeName=x"}, is: apierrors.IsBadRequest,
			says: `"spec.volumeName" is not a known field selector: only "metadata.name", "metadata.namespace"`,
		},
		{
			name: "malformed selector", opts: metav1.ListOptions{LabelSelector: "=="}, is: apierrors.IsBadRequest,
			says: "expected: !, identifier",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, err := w.claims.List(w.Context(), test.opts)
			if test.is != nil {
				expectError(t, err, test.is, test.says)
				return
			}
			expect(t, err, nil)
			expect(t, names(list.Items), test.want)
			expect(t, list.ResourceVersion, test.rv)
		})
	}
}

func TestListBeforeCompactionIsExpired(t *testing.T) {
	w := newWorld(t)
	w.create("a")
	w.create("b")
	list := testcheck.Must(w.claims.List(w.Context(), metav1.ListOptions{Limit: 1}))
	w.create("c")
	w.Server.Compact()
	_, err := w.claims.List(w.Context(), metav1.ListOptions{Limit: 1, Continue: list.Continue})
	expectError(t, err, apierrors.IsResourceExpired, "You must start a new list without the continue parameter")
	_, err = w.claims.List(w.Context(), metav1.ListOptions{
		ResourceVersion:      "5",
		ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	expectError(t, err, apierrors.IsResourceExpired, "The resourceVersion for the provided list is too old.")
}

func TestFieldSelectors(t *testing.T) {
	w := newWorld(t)
	pods, nodes := w.User.CoreV1().Pods("default"), w.User.CoreV1().Nodes()
	testcheck.Must(pods.Create(w.Context(), newPod("p", on("n")), metav1.CreateOptions{}))
	testcheck.Must(pods.Create(w.Context(), newPod("q"), metav1.CreateOptions{}))
	list := testcheck.Must(w.User.CoreV1().Pods("").List(w.Context(),
		metav1.ListOptions{FieldSelector: "spec.nodeName=n,status.phase!=Failed"}))
	expect(t, len(list.Items), 1)
	_, err := pods.List(w.Context(), metav1.ListOptions{FieldSelector: "spec.x=n"})
	expectError(t, err, apierrors.IsBadRequest, "field label not supported: spec.x")
	testcheck.Must(nodes.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		metav1.CreateOptions{}))
	some := testcheck.Must(nodes.List(w.Context(), metav1.ListOptions{FieldSelector: "spec.unschedulable=false"}))
	expect(t, len(some.Items), 1)
}

func TestListOfOneNamespace(t *testing.T) {
	s, c := newServer(t, "default-2", "a")
	for _, ns := range []string{"default", "default-2", "a"} {
		testcheck.Must(c.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), newClaim("x", inNamespace(ns)),
			metav1.CreateOptions{}))
	}
	list := testcheck.Must(c.CoreV1().PersistentVolumeClaims("default").List(t.Context(),
		metav1.ListOptions{}))
	expect(t, len(list.Items), 1)
	expect(t, len(s.List("persistentvolumeclaims")), 3)
}
