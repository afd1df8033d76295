package reactors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgofake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/fake/reactors"
)

// A testClient is what the snippets need of a fake clientset.
type testClient interface {
	kubernetes.Interface
	clientgo.FakeClient
	Actions() []clientgo.Action
	ClearActions()
	PrependWatchReactor(resource string, reaction clientgo.WatchReactionFunc)
}

// imports are the two clientsets: client-go's own and ours.
var imports = map[string]struct {
	newClientset       func(objects ...runtime.Object) testClient
	newSimpleClientset func(objects ...runtime.Object) testClient
	newDynamicClient   func(objects ...runtime.Object) dynamic.Interface
}{
	"client-go": {
		func(objects ...runtime.Object) testClient { return clientgofake.NewClientset(objects...) },
		func(objects ...runtime.Object) testClient { return clientgofake.NewSimpleClientset(objects...) },
		func(objects ...runtime.Object) dynamic.Interface {
			return dynamicfake.NewSimpleDynamicClient(scheme.Scheme, objects...)
		},
	},
	"volsim": {
		func(objects ...runtime.Object) testClient { return reactors.NewClientset(objects...) },
		func(objects ...runtime.Object) testClient { return reactors.NewSimpleClientset(objects...) },
		func(objects ...runtime.Object) dynamic.Interface { return reactors.NewClientset(objects...).Dynamic() },
	},
}

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// TestSnippets runs tests as they are written for client-go's fake clientset, with either import.
func TestSnippets(t *testing.T) {
	for name, from := range imports {
		t.Run(name, func(t *testing.T) {
			t.Run("PrependReactor with an error", func(t *testing.T) { snippetReactor(t, from.newClientset()) })
			t.Run("Actions", func(t *testing.T) { snippetActions(t, from.newClientset(pod("p"))) })
			t.Run("watch reactor", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { snippetWatchReactor(t, from.newClientset()) })
			})
			t.Run("informer factory", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { snippetInformers(t, from.newClientset(pod("before"))) })
			})
			t.Run("tracker", func(t *testing.T) { snippetTracker(t, from.newClientset()) })
			t.Run("tracker in a watch reactor", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { snippetTrackerWatch(t, from.newClientset()) })
			})
			t.Run("NewSimpleClientset", func(t *testing.T) { snippetObjects(t, from.newSimpleClientset(pod("a"), node("n"))) })
			t.Run("get, list, delete", func(t *testing.T) { snippetVerbs(t, from.newClientset(pod("a"), pod("b"))) })
			t.Run("dynamic", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { snippetDynamic(t, from.newDynamicClient(pod("a"))) })
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func snippetReactor(t *testing.T, client testClient) {
	client.PrependReactor("create", "pods", func(clientgo.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("boom")
	})
	_, err := client.CoreV1().Pods("default").Create(t.Context(), pod("p"), metav1.CreateOptions{})
	if err == nil || err.Error() != "boom" {
		t.Errorf("got %v, want boom", err)
	}
}

func snippetActions(t *testing.T, client testClient) {
	pods := client.CoreV1().Pods("default")
	p, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
	must(t, err)
	p.Labels = map[string]string{"a": "b"}
	_, err = pods.Update(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
	actions := client.Actions()
	if len(actions) != 2 || !actions[0].Matches("get", "pods") || !actions[1].Matches("update", "pods") {
		t.Fatalf("got %v", actions)
	}
	updated := actions[1].(clientgo.UpdateAction).GetObject().(*corev1.Pod)
	if updated.Labels["a"] != "b" {
		t.Errorf("updated %v", updated)
	}
	if client.ClearActions(); len(client.Actions()) != 0 {
		t.Error("there are actions")
	}
}

// added returns a channel of the names that the informer's handler gets.
func added(t *testing.T, informer cache.SharedIndexInformer) <-chan string {
	names := make(chan string, 10)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		names <- obj.(metav1.Object).GetName()
	}})
	must(t, err)
	return names
}

func snippetWatchReactor(t *testing.T, client testClient) {
	watcher := watch.NewFake()
	client.PrependWatchReactor("pods", clientgo.DefaultWatchReactor(watcher, nil))
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	names := added(t, informer)
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("not synced")
	}
	watcher.Add(pod("staged"))
	if name := <-names; name != "staged" {
		t.Errorf("got %q", name)
	}
	cancel()
	factory.Shutdown()
}

func snippetInformers(t *testing.T, client testClient) {
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(client, 0)
	names := added(t, factory.Core().V1().Pods().Informer())
	lister := factory.Core().V1().Pods().Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if _, err := lister.Pods("default").Get("before"); err != nil {
		t.Error(err)
	}
	synctest.Wait() // client-go's fake loses what is created before its watch
	_, err := client.CoreV1().Pods("default").Create(ctx, pod("after"), metav1.CreateOptions{})
	must(t, err)
	if diff := cmp.Diff([]string{"before", "after"}, []string{<-names, <-names}); diff != "" {
		t.Error(diff)
	}
	cancel()
	factory.Shutdown()
}

func snippetTracker(t *testing.T, client testClient) {
	tracker, pods := client.Tracker(), client.CoreV1().Pods("default")
	must(t, tracker.Add(pod("added")))
	created := pod("created")
	created.Status.Phase = corev1.PodRunning
	must(t, tracker.Create(podsResource, created, "default"))
	if p, err := pods.Get(t.Context(), "created", metav1.GetOptions{}); err != nil || p.Status.Phase != corev1.PodRunning {
		t.Errorf("got %+v, %v", p, err)
	}
	created.Status.Phase, created.Labels = corev1.PodFailed, map[string]string{"a": "b"}
	must(t, tracker.Update(podsResource, created, "default"))
	obj, err := tracker.Get(podsResource, "default", "created")
	must(t, err)
	if p := obj.(*corev1.Pod); p.Status.Phase != corev1.PodFailed || p.Labels["a"] != "b" {
		t.Errorf("got %+v", p)
	}
	must(t, tracker.Delete(podsResource, "default", "added"))
	if err := tracker.Delete(podsResource, "default", "added"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
	list, err := tracker.List(podsResource, corev1.SchemeGroupVersion.WithKind("Pod"), "default")
	must(t, err)
	if items := list.(*corev1.PodList).Items; len(items) != 1 || items[0].Name != "created" {
		t.Errorf("got %v", items)
	}
	if actions := client.Actions(); len(actions) != 1 {
		t.Errorf("got %v, want the get", actions)
	}
}

// snippetTrackerWatch is client-go's example of a test with informers.
func snippetTrackerWatch(t *testing.T, client testClient) {
	ctx, cancel := context.WithCancel(t.Context())
	watcherStarted := make(chan struct{})
	client.PrependWatchReactor("*", func(action clientgo.Action) (bool, watch.Interface, error) {
		var opts metav1.ListOptions
		if action, ok := action.(clientgo.WatchActionImpl); ok {
			opts = action.ListOptions
		}
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace(), opts)
		if err != nil {
			return false, nil, err
		}
		close(watcherStarted)
		return true, w, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	names := added(t, informer)
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	<-watcherStarted
	_, err := client.CoreV1().Pods("default").Create(ctx, pod("p"), metav1.CreateOptions{})
	must(t, err)
	if name := <-names; name != "p" {
		t.Errorf("got %q", name)
	}
	cancel()
	factory.Shutdown()
}

func snippetObjects(t *testing.T, client testClient) {
	p, err := client.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{})
	must(t, err)
	if p.Spec.Containers[0].Image != "i" {
		t.Errorf("got %+v", p)
	}
	_, err = client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	must(t, err)
}

func snippetVerbs(t *testing.T, client testClient) {
	pods := client.CoreV1().Pods("default")
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 2 {
		t.Errorf("got %v", list.Items)
	}
	must(t, pods.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	if _, err := pods.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

func snippetDynamic(t *testing.T, client dynamic.Interface) {
	ctx, cancel := context.WithCancel(t.Context())
	pods := client.Resource(podsResource).Namespace("default")
	a, err := pods.Get(ctx, "a", metav1.GetOptions{})
	must(t, err)
	must(t, unstructured.SetNestedField(a.Object, "b", "metadata", "labels", "a"))
	_, err = pods.Update(ctx, a, metav1.UpdateOptions{})
	must(t, err)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	names := added(t, factory.ForResource(podsResource).Informer())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if name := <-names; name != "a" {
		t.Errorf("got %q", name)
	}
	cancel()
	factory.Shutdown()
}

// The version of the server is set in another way than that of client-go's discovery, whose type
// the clientset does not have. docs/migrating.md says so.
func TestSnippetDiscoveryVersion(t *testing.T) {
	const want = "v1.30.2"
	theirs, ours := clientgofake.NewClientset(), reactors.NewClientset()
	theirs.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: want}
	ours.Server().SetVersion(version.Info{GitVersion: want})
	for _, client := range []kubernetes.Interface{theirs, ours} {
		if v, err := client.Discovery().ServerVersion(); err != nil || v.GitVersion != want {
			t.Errorf("%T: got %v, %v, want %s", client, v, err, want)
		}
	}
	failure := panicOf(func() { _ = ours.Discovery().(*fakediscovery.FakeDiscovery) })
	if !strings.Contains(failure, "not *fake.FakeDiscovery") {
		t.Errorf("got %q", failure)
	}
}

// panicOf returns the text of the panic of f, or "".
func panicOf(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

// A dynamic client and a watch reactor: its informers sync, too.
func TestWatchReactorOfADynamicClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := reactors.NewClientset()
		watcher := watch.NewFake()
		client.PrependWatchReactor("pods", clientgo.DefaultWatchReactor(watcher, nil))
		ctx, cancel := context.WithCancel(t.Context())
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client.Dynamic(), 0)
		factory.ForResource(podsResource).Informer()
		factory.Start(ctx.Done())
		synced := factory.WaitForCacheSync(ctx.Done())
		if !synced[podsResource] {
			t.Error("not synced")
		}
		cancel()
		factory.Shutdown()
	})
}

func TestZeroClientset(t *testing.T) {
	const want = "fake: a zero Clientset has no server: use NewClientset, NewSimpleClientset or Server.Client"
	client := &reactors.Clientset{}
	client.PrependReactor("get", "pods", func(clientgo.Action) (bool, runtime.Object, error) { return true, nil, nil })
	for name, f := range map[string]func(){
		"CoreV1":          func() { client.CoreV1() },
		"StorageV1":       func() { client.StorageV1() },
		"AuthorizationV1": func() { client.AuthorizationV1() },
		"Dynamic":         func() { client.Dynamic() },
		"Metadata":        func() { client.Metadata() },
		"Server":          func() { client.Server() },
		"Tracker":         func() { client.Tracker() },
		"Resource":        func() { client.Resource(podsResource, "default") },
	} {
		if got := panicOf(f); got != want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
