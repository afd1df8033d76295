package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
)

// TestAnIdleWatchReceivesBookmarks advances the simulated clock by a minute at each reading while
// the watched resource does not change.
func TestAnIdleWatchReceivesBookmarks(t *testing.T) {
	var minutes atomic.Int64
	server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch.Add(time.Duration(minutes.Add(1)) * time.Minute) }})
	h := httptest.NewServer(apiserver.NewHandler(server,
		apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }}))
	t.Cleanup(h.Close)
	client, err := kubernetes.NewForConfig(&clientrest.Config{Host: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps("default")
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := maps.Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Stop)
	created, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for e := range stream.ResultChan() {
		got, ok := e.Object.(*corev1.ConfigMap)
		if e.Type != watch.Bookmark || !ok {
			t.Fatalf("got %s %+v, want a bookmark", e.Type, e.Object)
		}
		if got.ResourceVersion == created.ResourceVersion {
			break // the earlier bookmarks precede the other write
		}
	}
}

// TestADeprecatedVersionWarns checks that each request for a deprecated version carries a warning.
func TestADeprecatedVersionWarns(t *testing.T) {
	server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	server.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1", "v1beta1"}, Resource: "things", Kind: "Thing",
		ListKind:   "ThingList",
		Namespaced: true, Deprecated: map[string]string{"v1beta1": "example.com/v1beta1 Thing is deprecated"},
	})
	h := apiserver.NewHandler(server,
		apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }})
	for version, want := range map[string]string{
		"v1": "", "v1beta1": `299 - "example.com/v1beta1 Thing is deprecated"`,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/example.com/"+version+"/namespaces/default/things",
			strings.NewReader("")))
		if got := w.Header().Get("Warning"); w.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d, warning %q, want %q", version, w.Code, got, want)
		}
	}
}
