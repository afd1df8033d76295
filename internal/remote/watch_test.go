package remote_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/remote"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// callRecorder records the calls of the handlers of an informer of config maps.
type callRecorder struct {
	mu    sync.Mutex
	calls []string // guarded by mu
	maps  cache.Indexer
}

func (e *callRecorder) note(what string, obj any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tomb := ""
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		tomb, obj = " (not seen)", unknown.Obj
	}
	m := obj.(*corev1.ConfigMap)
	e.calls = append(e.calls, fmt.Sprintf("%s %s=%s%s", what, m.Name, m.Data["v"], tomb))
}

func (e *callRecorder) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls)
}

// watchMaps adds an informer of config maps to a process. It ignores the config maps of
// controllers.
func (w *world) watchMaps(name string, selections ...remote.FieldSelector) *callRecorder {
	w.Helper()
	_, conn := w.connect(name, selections...)
	informer := conn.Informers().Core().V1().ConfigMaps().Informer()
	e := &callRecorder{maps: informer.GetIndexer()}
	own := func(obj any) bool {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		return obj.(*corev1.ConfigMap).Name != "kube-root-ca.crt"
	}
	_, err := informer.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: own,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { e.note("add", obj) },
			UpdateFunc: func(_, obj any) { e.note("update", obj) },
			DeleteFunc: func(obj any) { e.note("delete", obj) },
		},
	})
	w.NoError(err)
	w.Host.Start()
	w.Until("the list", informer.HasSynced)
	return e
}

func (w *world) makeMap(name, v string) {
	w.Helper()
	testcheck.Must(w.User.CoreV1().ConfigMaps("default").Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": v},
	}, metav1.CreateOptions{}))
}

func (w *world) changeMap(name, v string) {
	w.Helper()
	testcheck.Must(w.User.CoreV1().ConfigMaps("default").Patch(w.Context(), name, types.MergePatchType,
		[]byte(`{"data":{"v":"`+v+`"}}`), metav1.PatchOptions{}))
}

func (w *world) deleteMap(name string) {
	w.Helper()
	w.NoError(w.User.CoreV1().ConfigMaps("default").Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// gate passes watches, or cuts them and blocks new ones until it is opened again.
type gate struct {
	mu     sync.Mutex
	closed bool                 // guarded by mu
	ends   []context.CancelFunc // guarded by mu: of the open watches
	opened chan struct{}        // guarded by mu: closed when the gate opens
	serve  func(http.ResponseWriter, *http.Request)
}

func (w *world) gate() *gate {
	g := &gate{serve: w.serve}
	w.intercept(g.pass)
	return g
}

func (g *gate) pass(rw http.ResponseWriter, req *http.Request) bool {
	if req.URL.Query().Get("watch") == "" {
		return false
	}
	g.mu.Lock()
	closed, opened := g.closed, g.opened
	ctx, end := context.WithCancel(req.Context())
	g.ends = append(g.ends, end)
	g.mu.Unlock()
	if closed {
		select {
		case <-opened:
		case <-ctx.Done():
			return true
		}
	}
	g.serve(rw, req.WithContext(ctx))
	return true
}

// close cuts the watches. New ones block.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.opened = true, make(chan struct{})
	for _, end := range g.ends {
		end()
	}
	g.ends = nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	close(g.opened)
}

// lists returns how often a process listed.
func (w *world) lists() int {
	n := 0
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindDeliver && r.Verb == "LIST" {
			n++
		}
	}
	return n
}

// A watch whose connection is cut is resumed.
func TestCutWatchIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	g := w.gate()
	w.makeMap("a", "1")
	e := w.watchMaps("watcher")
	w.changeMap("a", "2")
	w.Until("the change", func() bool { return len(e.all()) == 2 })
	g.close()
	w.changeMap("a", "3")
	w.makeMap("b", "1")
	w.deleteMap("b")
	w.deleteMap("a")
	w.makeMap("a", "4")
	g.open()
	want := []string{"add a=1", "update a=2", "update a=3", "add b=1", "delete b=1", "delete a=3", "add a=4"}
	w.Until("all of it", func() bool { return len(e.all()) >= len(want) })
	if diff := cmp.Diff(want, e.all()); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	if n := w.lists(); n != 1 {
		t.Errorf("%d lists, want 1:\n%s", n, w.Host.Log().Text())
	}
}

// A watch from a compacted revision lists again. Objects deleted meanwhile are reported as deleted.
func TestCompactedWatchListsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{HistoryEvents: 4})
	g := w.gate()
	w.makeMap("changes", "1")
	w.makeMap("goes", "1")
	w.makeMap("stays", "1")
	e := w.watchMaps("watcher")
	g.close()
	w.deleteMap("goes")
	w.makeMap("passes", "1")
	w.deleteMap("passes")
	for i := range 20 {
		w.changeMap("changes", fmt.Sprint(i+2))
	}
	w.makeMap("comes", "1")
	g.open()
	want := []string{
		"add changes=1", "add goes=1", "add stays=1",
		"update changes=21", "add comes=1", "delete goes=1 (not seen)",
	}
	w.Until("the difference", func() bool { return len(e.all()) >= len(want) })
	if diff := cmp.Diff(want, e.all()); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	if n := w.lists(); n != 2 {
		t.Errorf("%d lists, want 2:\n%s", n, w.Host.Log().Text())
	}
	w.changeMap("comes", "2")
	w.Until("what comes afterwards", func() bool { return len(e.all()) > len(want) })
}

// A field selector restricts a cache.
func TestFieldSelectorRestrictsACache(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.makeMap("mine", "1")
	w.makeMap("other", "1")
	e := w.watchMaps("watcher", remote.FieldSelector{Resource: "configmaps", Fields: "metadata.name=mine"})
	w.changeMap("other", "2")
	w.changeMap("mine", "2")
	w.Until("the change", func() bool { return len(e.all()) >= 2 })
	if diff := cmp.Diff([]string{"add mine=1", "update mine=2"}, e.all()); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	if keys := e.maps.ListKeys(); len(keys) != 1 {
		t.Errorf("view of %v, want default/mine", keys)
	}
}

// A list that the server refuses is reported in the trace until it succeeds.
func TestRefusedListIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	var mu sync.Mutex
	refuse := true
	w.intercept(func(rw http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if refuse && strings.HasSuffix(req.URL.Path, "/configmaps") {
			answerStatus(rw, http.StatusForbidden, "Forbidden", "watcher may not")
			return true
		}
		return false
	})
	c, conn := w.connect("watcher")
	synced := conn.Informers().Core().V1().ConfigMaps().Informer().HasSynced
	w.Host.Start()
	w.Until("the refusal", func() bool {
		return slices.ContainsFunc(w.Host.Log().Records(), func(r trace.Record) bool {
			return r.Task == c.Name()+"/cache configmaps" && r.Verb == "ERROR" &&
				strings.Contains(r.Result(), "watcher may not")
		})
	})
	if synced() {
		t.Error("a view that could not list has synced")
	}
	mu.Lock()
	refuse = false
	mu.Unlock()
	w.Until("the list", synced)
}

func answerStatus(rw http.ResponseWriter, code int, reason, message string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	fmt.Fprintf(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code,
		reason, message)
}

// Every resource of the server has an informer: the guessed resource of each kind is right.
func TestEveryResourceHasAnInformer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	_, conn := w.connect("watcher")
	synced := map[string]func() bool{}
	for _, r := range w.Server.Resources() {
		if !slices.Contains(r.Verbs, "watch") {
			continue
		}
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}
		if strings.HasPrefix(r.Name, "mutatingadmissionpolic") && r.Version == "v1" {
			continue // client-go has it from v0.36 on
		}
		informer, err := conn.Informers().ForResource(gvr)
		if err != nil {
			t.Errorf("%v: %v", gvr, err)
			continue
		}
		synced[gvr.String()] = informer.Informer().HasSynced
	}
	if len(synced) < 25 {
		t.Errorf("%d views: are these all?", len(synced))
	}
	w.Host.Start()
	for name, synced := range synced {
		w.Until("the list of "+name, synced)
	}
}
