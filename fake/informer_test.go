package fake_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// hearing records the handler calls of an informer.
type hearing struct{ heard []string }

func (h *hearing) note(format string, args ...any) {
	h.heard = append(h.heard, fmt.Sprintf(format, args...))
}

func (h *hearing) take() []string {
	out := h.heard
	h.heard = nil
	return out
}

func (h *hearing) OnAdd(obj any, initial bool) { h.note("add %s initial=%v", traceName(obj), initial) }

func (h *hearing) OnUpdate(old, obj any) {
	h.note("update %s n=%s->%s", traceName(obj), old.(metav1.Object).GetLabels()["n"],
		obj.(metav1.Object).GetLabels()["n"])
}

func (h *hearing) OnDelete(obj any) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		h.note("delete %s unknown", traceName(d.Obj))
		return
	}
	h.note("delete %s", traceName(obj))
}

func traceName(obj any) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return m.GetName()
}

// steppedWorld returns a world with a process c that has an informer of claims.
func steppedWorld(t *testing.T) (*world, *sim.Stepped, *sim.Process, cache.SharedIndexInformer, *hearing) {
	t.Helper()
	stepped := testworld.New(t, sim.SteppedConfig{})
	w := &world{stepped, stepped.User.CoreV1().PersistentVolumeClaims("default")}
	c := w.Host.Process("c")
	view := w.Server.Informers(c).Core().V1().PersistentVolumeClaims().Informer()
	h := &hearing{}
	testcheck.Must(view.AddEventHandler(h))
	return w, w.Host, c, view, h
}

func keys(view cache.SharedIndexInformer) []string { return view.GetStore().ListKeys() }

func TestInformerDeliversOneEventPerStep(t *testing.T) {
	w, host, _, view, h := steppedWorld(t)
	w.create("b")
	w.create("a")
	expect(t, view.HasSynced(), false)
	expect(t, host.Step(), true)
	expect(t, view.HasSynced(), true)
	expect(t, h.take(), []string{"add a initial=true", "add b initial=true"})
	expect(t, view.LastSyncResourceVersion(), "6")

	w.patch("a", `{"metadata":{"labels":{"n":"1"}}}`)
	w.patch("a", `{"metadata":{"labels":{"n":"2"}}}`)
	w.remove("b")
	w.create("b", label("n", "new"))
	expect(t, h.take(), nil) // stale until stepped
	for _, want := range []string{"update a n=->1", "update a n=1->2", "update b n=->", "delete b", "add b initial=false"} {
		expect(t, host.Step(), true)
		expect(t, h.take(), []string{want})
	}
	expect(t, host.Step(), false)
	expect(t, keys(view), []string{"default/a", "default/b"})

	var delivered []string
	for _, r := range host.Log().Records() {
		if r.Kind == "deliver" {
			delivered = append(delivered, r.Task+" "+r.Action.String()+" "+r.Result())
		}
	}
	expect(t, delivered, []string{
		"c/cache persistentvolumeclaims deliver LIST persistentvolumeclaims 2 items rv=6",
		"c/cache persistentvolumeclaims deliver MODIFIED persistentvolumeclaims/default/a rv=7",
		"c/cache persistentvolumeclaims deliver MODIFIED persistentvolumeclaims/default/a rv=8",
		"c/cache persistentvolumeclaims deliver MODIFIED persistentvolumeclaims/default/b rv=9",
		"c/cache persistentvolumeclaims deliver DELETED persistentvolumeclaims/default/b rv=10",
		"c/cache persistentvolumeclaims deliver ADDED persistentvolumeclaims/default/b rv=11",
	})
}

func TestInformerSharesTheStoredObjects(t *testing.T) {
	w, host, _, view, _ := steppedWorld(t)
	w.create("a")
	host.Step()
	stored, _ := w.Server.Get("persistentvolumeclaims", "default", "a")
	got, _, _ := view.GetStore().GetByKey("default/a")
	if got != any(stored) {
		t.Error("the informer has a copy")
	}
}

func TestInformerListsAgainAfterCompaction(t *testing.T) {
	w, host, _, _, h := steppedWorld(t)
	for _, n := range []string{"a", "b", "c"} {
		w.create(n)
	}
	host.Step()
	h.take()
	w.patch("b", `{"metadata":{"labels":{"n":"1"}}}`)
	w.remove("a")
	w.create("d")
	w.Server.Compact()
	w.create("e")
	expect(t, host.Step(), true)
	expect(t, h.take(), []string{"update b n=->1", "add d initial=false", "add e initial=false", "delete a unknown"})
	expect(t, host.Step(), false)
}

func TestLateHandlerGetsTheCache(t *testing.T) {
	w, host, _, view, _ := steppedWorld(t)
	w.create("b")
	w.create("a")
	host.Step()
	late := &hearing{}
	r := testcheck.Must(view.AddEventHandler(late))
	expect(t, late.take(), []string{"add a initial=true", "add b initial=true"})
	expect(t, r.HasSynced(), true)
	expect(t, view.RemoveEventHandler(r), nil)
	w.create("c")
	host.Step()
	expect(t, late.take(), nil)
}

func TestWorkersWaitForTheInformersOfTheirProcess(t *testing.T) {
	_, host, c, view, _ := steppedWorld(t)
	worked := false
	c.Worker("w", func() bool { return !worked }, func(context.Context) { worked = view.HasSynced() })
	expect(t, host.Run(), nil)
	expect(t, worked, true)
}

func TestFactory(t *testing.T) {
	w, host, c, view, _ := steppedWorld(t)
	f := w.Server.Informers(c)
	// From 0.37 on, client-go wraps an informer at each request. The wrappers have the same indexer.
	if f.Core().V1().PersistentVolumeClaims().Informer().GetIndexer() != view.GetIndexer() {
		t.Error("a second informer")
	}
	if w.Server.Informers(host.Process("d")).Core().V1().PersistentVolumeClaims().Informer().GetIndexer() == view.GetIndexer() {
		t.Error("an informer of two processes")
	}
	g := testcheck.Must(f.ForResource(storagev1.SchemeGroupVersion.WithResource("storageclasses")))
	testcheck.Must(w.User.StorageV1().StorageClasses().Create(w.Context(), newClass("gold"),
		metav1.CreateOptions{}))
	w.create("b")
	w.create("a", label("n", "1"))
	f.Start(nil)
	for _, synced := range f.WaitForCacheSync(nil) {
		expect(t, synced, false)
	}
	expect(t, host.Run(), nil)
	for _, synced := range f.WaitForCacheSync(nil) {
		expect(t, synced, true)
	}
	all := testcheck.Must(f.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims("default").List(labels.Everything()))
	expect(t, []string{all[0].Name, all[1].Name}, []string{"a", "b"})
	_, err := f.Storage().V1().StorageClasses().Lister().Get("gold")
	expect(t, err, nil)
	_, err = g.Lister().Get("gold")
	expect(t, err, nil)
	// An informer of a kind that the server lacks never syncs, and is not nil.
	none := testcheck.Must(f.Core().V1().Secrets().Lister().List(labels.Everything()))
	expect(t, len(none), 0)
	expect(t, f.Core().V1().Secrets().Informer().HasSynced(), false)
}

func TestIndexers(t *testing.T) {
	w, host, _, view, _ := steppedWorld(t)
	byClass := func(obj any) ([]string, error) { return []string{*obj.(*claim).Spec.StorageClassName}, nil }
	expect(t, view.AddIndexers(cache.Indexers{"class": byClass}), nil)
	for _, n := range []string{"c", "a", "b"} {
		w.create(n)
	}
	expect(t, host.Run(), nil)
	byNode := func(obj any) ([]string, error) { return []string{obj.(*claim).Name[:1]}, nil }
	expect(t, view.AddIndexers(cache.Indexers{"late": byNode}), nil)
	got := testcheck.Must(view.GetIndexer().ByIndex("class", "gold"))
	expect(t, []string{traceName(got[0]), traceName(got[1]), traceName(got[2])}, []string{"a", "b", "c"})
	got = testcheck.Must(view.GetIndexer().ByIndex("late", "b"))
	expect(t, traceName(got[0]), "b")
	got = testcheck.Must(view.GetIndexer().Index("class", got[0]))
	expect(t, len(got), 3)
	_, err := view.GetIndexer().ByIndex("none", "x")
	if err == nil {
		t.Error("no error for an unknown index")
	}
	w.remove("b")
	expect(t, host.Run(), nil)
	expect(t, testcheck.Must(view.GetIndexer().IndexKeys("class", "gold")), []string{"default/a", "default/c"})
}

func TestTransformIsOfACopy(t *testing.T) {
	w, host, _, view, _ := steppedWorld(t)
	expect(t, view.SetTransform(func(obj any) (any, error) {
		obj.(*claim).Labels = nil
		return obj, nil
	}), nil)
	w.create("a")
	expect(t, host.Run(), nil)
	got, _, _ := view.GetStore().GetByKey("default/a")
	expect(t, got.(*claim).Labels, nil)
	expect(t, w.get("a").Labels, map[string]string{"app": "db"})
}

// Writers and readers with informers are separate processes.
func TestLiveInformersSeeConcurrentWrites(t *testing.T) {
	const writers, readers, writes = 4, 4, 50
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	s := fake.NewServer(fake.Config{Now: host.Now})
	var mu sync.Mutex
	seen := make([]map[string]string, readers) // guarded by mu: last resourceVersion by name
	for i := range readers {
		seen[i] = map[string]string{}
		note := func(obj any) {
			mu.Lock()
			defer mu.Unlock()
			m := obj.(metav1.Object)
			seen[i][m.GetName()] = m.GetResourceVersion()
		}
		_, _ = s.Informers(host.Process(fmt.Sprint("reader-",
			i))).Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(
			cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, obj any) { note(obj) }})
	}
	for i := range writers {
		c := host.Process(fmt.Sprint("writer-", i))
		claims := s.Client(c).CoreV1().PersistentVolumeClaims("default")
		c.User("", func(ctx context.Context) {
			for n := range writes {
				// All write one shared object, without a precondition, and one object each.
				_, _ = claims.Create(ctx, newClaim("shared"), metav1.CreateOptions{})
				_, _ = claims.Update(ctx, newClaim("shared", label("n", fmt.Sprint(i, "-", n))), metav1.UpdateOptions{})
				_, _ = claims.Create(ctx, newClaim(fmt.Sprintf("own-%d-%d", i, n)), metav1.CreateOptions{})
			}
		})
	}
	host.Start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	want := func() map[string]string {
		all := map[string]string{}
		for _, obj := range s.List("persistentvolumeclaims") {
			all[obj.GetName()] = obj.GetResourceVersion()
		}
		return all
	}
	err := host.Wait(ctx, "the readers to have seen all", func() bool {
		all := want()
		mu.Lock()
		defer mu.Unlock()
		return len(all) == writers*writes+1 && !slices.ContainsFunc(seen,
			func(m map[string]string) bool { return len(m) != len(all) }) &&
			!slices.ContainsFunc(seen, func(m map[string]string) bool { return m["shared"] != all["shared"] })
	})
	expect(t, err, nil)
	mu.Lock()
	defer mu.Unlock()
	for i := range seen {
		expect(t, seen[i], want())
	}
	// No write was lost: shared has as many updates as were made.
	expect(t, s.Revision(), int64(4+1+writers*writes*2))
}

// An informer with a filter sees objects enter and leave as additions and deletions. Other events
// do not cause steps.
func TestInformerWithFilter(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	c := host.Process("kubelet")
	var heard []string
	_, err := server.Informers(c, fake.Filter{
		Resource: "pods",
		Fields:   "spec.nodeName=n1",
	}).Core().V1().Pods().Informer().
		AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { heard = append(heard, "add "+obj.(*corev1.Pod).Name) },
			UpdateFunc: func(_, obj any) { heard = append(heard, "update "+obj.(*corev1.Pod).Name) },
			DeleteFunc: func(obj any) { heard = append(heard, "delete "+obj.(*corev1.Pod).Name) },
		})
	if err != nil {
		t.Fatal(err)
	}
	pods := server.Client(host.ExternalCaller()).CoreV1().Pods("default")
	create := func(name, node string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("before", "n1")
	create("other", "n2")
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	create("elsewhere", "n2")
	if host.Step() {
		t.Error("an event of another node's pod caused a step")
	}
	create("unplaced", "")
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "unplaced"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	for _, name := range []string{"before", "other"} {
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
	}
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"add before", "add unplaced", "delete before"}, heard); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A process with a delayed cache lists an old state, then gets the later events.
func TestDelayedCacheListsAnOldState(t *testing.T) {
	w, host, _, _, _ := steppedWorld(t)
	w.create("a")
	w.create("b")
	w.patch("a", `{"metadata":{"labels":{"n":"1"}}}`)
	w.remove("b")
	late := host.Process("late")
	w.Server.DelayCache(late, "persistentvolumeclaims", 2)
	h := &hearing{}
	view := w.Server.Informers(late).Core().V1().PersistentVolumeClaims().Informer()
	testcheck.Must(view.AddEventHandler(h))
	expect(t, host.Run(), nil)
	expect(t, h.take(), []string{"add a initial=true", "add b initial=true", "update b n=->", "delete b"})
	expect(t, keys(view), []string{"default/a"})
}

// An informer whose watch broke gets the present state, and misses what existed in between.
func TestInformerListsAgainAfterBreakWatch(t *testing.T) {
	w, host, c, _, h := steppedWorld(t)
	w.create("a")
	w.create("b")
	expect(t, host.Run(), nil)
	h.take()
	expect(t, w.Server.BreakWatch(c, "persistentvolumeclaims"), false) // it is not behind
	w.patch("a", `{"metadata":{"labels":{"n":"1"}}}`)
	w.patch("a", `{"metadata":{"labels":{"n":"2"}}}`)
	w.create("c")
	w.remove("c")
	w.remove("b")
	expect(t, w.Server.PendingEvents(c, "persistentvolumeclaims"), 7)
	expect(t, w.Server.BreakWatch(c, "persistentvolumeclaims"), true)
	expect(t, w.Server.BreakWatch(c, "persistentvolumes"), false) // there is no such informer
	expect(t, w.Server.CachedResources(c), []string{"persistentvolumeclaims"})
	expect(t, host.Run(), nil)
	expect(t, h.take(), []string{"update a n=->2", "delete b unknown"})
}

// A task may wait for what a cache has, also for a change that causes no step.
func TestWaitForAChangeWithoutAStep(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	c := host.Process("watcher")
	informer := server.Informers(c, fake.Filter{
		Resource: "configmaps", Match: func(_, _ fake.Object) bool { return false },
	}).Core().V1().ConfigMaps().Informer()
	has := func() bool {
		_, has, err := informer.GetIndexer().GetByKey("default/a")
		return has && err == nil
	}
	ended := false
	c.Spawn("wait", func(context.Context) { ended = c.Wait("a", 0, has) })
	if err := host.Run(); err != nil || ended || has() {
		t.Fatalf("error %v, wait ended: %v, cached: %v before the object exists", err, ended, has())
	}
	maps := server.Client(host.ExternalCaller()).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := host.Run(); err != nil || !ended {
		t.Errorf("error %v, wait ended: %v", err, ended)
	}
}
