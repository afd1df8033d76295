package fake_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
)

func TestWatchSeesObjectsEnterAndLeaveASelector(t *testing.T) {
	w := newWorld(t)
	from := w.create("a", label("n", "1")).ResourceVersion
	w.patch("a", `{"metadata":{"labels":{"n":"2"}}}`)
	left := w.get("a").ResourceVersion
	w.patch("a", `{"metadata":{"labels":{"n":"3"}}}`)
	w.patch("a", `{"metadata":{"labels":{"n":"1"}}}`)
	w.remove("a")

	stream := testcheck.Must(w.claims.Watch(w.Context(),
		metav1.ListOptions{ResourceVersion: from, LabelSelector: "n=1"}))
	defer stream.Stop()
	first := <-stream.ResultChan()
	expect(t, describe(first), "DELETED a n=1") // as it was when last selected
	expect(t, first.Object.(*claim).ResourceVersion, left)
	var got []string
	for range 3 {
		got = append(got, describe(<-stream.ResultChan()))
	}
	expect(t, got, []string{"ADDED a n=1", "MODIFIED a n=1", "DELETED a n=1"})
}

func TestWatchStarts(t *testing.T) {
	const bookmark = "BOOKMARK map[k8s.io/initial-events-end:true]"
	notOlder := metav1.ResourceVersionMatchNotOlderThan
	for _, test := range []struct {
		name string
		opts metav1.ListOptions
		want []string
	}{
		{"no revision", metav1.ListOptions{}, []string{"ADDED a n=", "ADDED b n=", "ADDED z n="}},
		{"any revision", metav1.ListOptions{ResourceVersion: "0"}, []string{"ADDED a n=", "ADDED b n=", "ADDED z n="}},
		{"any revision, bookmarks", metav1.ListOptions{ResourceVersion: "0", AllowWatchBookmarks: true}, []string{
			"ADDED a n=",
			"ADDED b n=", bookmark, "ADDED z n=",
		}},
		{
			"a revision",
			metav1.ListOptions{ResourceVersion: "5", AllowWatchBookmarks: true},
			[]string{"ADDED b n=", "ADDED z n="},
		},
		{
			"initial events",
			metav1.ListOptions{
				ResourceVersion: "5", SendInitialEvents: ptr.To(true),
				ResourceVersionMatch: notOlder, AllowWatchBookmarks: true,
			},
			[]string{"ADDED a n=", "ADDED b n=", bookmark, "ADDED z n="},
		},
		{
			"no initial events",
			metav1.ListOptions{SendInitialEvents: ptr.To(false), ResourceVersionMatch: notOlder},
			[]string{"ADDED z n="},
		},
		{"the future", metav1.ListOptions{ResourceVersion: "7"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.create("a") // revision 5
			w.create("b") // 6
			ctx, cancel := context.WithCancel(w.Context())
			defer cancel()
			stream := testcheck.Must(w.claims.Watch(ctx, test.opts))
			w.create("z") // 7
			for _, want := range test.want {
				expect(t, describe(<-stream.ResultChan()), want)
			}
			cancel()
			for range stream.ResultChan() { // is closed
			}
		})
	}
}

func TestWatchErrors(t *testing.T) {
	w := newWorld(t)
	_, err := w.claims.Watch(w.Context(), metav1.ListOptions{SendInitialEvents: ptr.To(true)})
	expectError(t, err, apierrors.IsInvalid, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	_, err = w.claims.Watch(w.Context(), metav1.ListOptions{ResourceVersion: "abc"})
	expectError(t, err, func(err error) bool { return apierrors.ReasonForError(err) == "" }, "invalid syntax")
	_, err = w.claims.Watch(w.Context(), metav1.ListOptions{FieldSelector: "spec.x=1"})
	expectError(t, err, apierrors.IsBadRequest, "is not a known field selector")
}

func TestWatchBehindCompactionIsExpired(t *testing.T) {
	w := newWorld(t)
	from := w.create("a").ResourceVersion
	stream := testcheck.Must(w.claims.Watch(w.Context(), metav1.ListOptions{ResourceVersion: from}))
	defer stream.Stop()
	w.create("b")
	w.create("c")
	w.create("d")
	w.Server.Compact()
	var last *metav1.Status
	for e := range stream.ResultChan() {
		last, _ = e.Object.(*metav1.Status)
	}
	expect(t, last.Reason, metav1.StatusReasonExpired)
}

func TestWatchOfAFutureRevisionFailsInTheStream(t *testing.T) {
	w := newWorld(t)
	stream := testcheck.Must(w.claims.Watch(w.Context(), metav1.ListOptions{
		ResourceVersion: "99", SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}))
	e := <-stream.ResultChan()
	expectError(t, apierrors.FromObject(e.Object), apierrors.IsTimeout, "Too large resource version: 99, current: 4")
}

func TestWatchEndsWithItsTimeout(t *testing.T) {
	w := newWorld(t)
	stream := testcheck.Must(w.claims.Watch(w.Context(), metav1.ListOptions{TimeoutSeconds: ptr.To(int64(1))}))
	for e := range stream.ResultChan() {
		t.Error(describe(e))
	}
}
