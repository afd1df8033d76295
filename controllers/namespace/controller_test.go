package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/namespace"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

// world is a server with a namespace controller, and the namespace n.
type world struct {
	*testworld.On[sim.Host]
	process   *sim.Process
	discovery error
}

var widgets = fake.CustomKind{
	Group: "example.com", Versions: []string{"v1"}, Resource: "widgets", Kind: "Widget", ListKind: "WidgetList",
	Namespaced: true,
}

func newWorld(t testing.TB, host func() sim.Host) *world {
	w := &world{On: testworld.NewOn(t, host(), fake.Config{Namespaces: []string{"n", "other"}})}
	w.ActImmediately()
	w.Server.Install(widgets)
	w.Server.OnCommit(func(c fake.Commit) {
		if c.Resource == "namespaces" && c.Type == watch.Deleted {
			if left := w.left(c.After.GetName()); left != "" {
				w.Errorf("namespace %s is gone, but these are left: %s", c.After.GetName(), left)
			}
		}
	})
	w.start()
	return w
}

func stepped(chooser sim.Chooser) func() sim.Host {
	return func() sim.Host { return sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000}) }
}

func (w *world) start() {
	w.process = w.Host.Process("namespace")
	client := w.Server.Client(w.process)
	namespace.New(namespace.Config{
		Process: w.process, Client: client, Metadata: client.Metadata(), Watcher: w.Server.MetadataWatcher(w.process),
		Informers: w.Server.Informers(w.process, fake.Filter{
			Resource: "namespaces", Match: func(was, is fake.Object) bool { return namespace.Matches(was, is) },
		}),
		Discover: func() ([]*metav1.APIResourceList, error) { return w.preferred(), w.discovery },
	})
}

func (w *world) preferred() []*metav1.APIResourceList {
	lists, err := w.User.ServerPreferredNamespacedResources()
	if err != nil {
		w.Fatal(err)
	}
	return lists
}

func (w *world) restart(chooser sim.Chooser) {
	w.Host.Close()
	w.Server.RemoveComponent(w.process)
	w.Host = stepped(chooser)()
	w.start()
}

// resource returns a client for a resource in the namespace n.
func (w *world) resource(group, resource string) fake.ResourceClient {
	client, ok := w.User.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, "n")
	if !ok {
		w.Fatal("not served: ", resource)
	}
	return client
}

func (w *world) create(group, resource, name string, finalizers ...string) {
	w.Helper()
	client := w.resource(group, resource)
	obj := client.New()
	obj.SetName(name)
	obj.SetFinalizers(finalizers)
	testcheck.Must(client.Create(ctx, obj, metav1.CreateOptions{}))
}

func (w *world) release(group, resource, name string) {
	w.Helper()
	testcheck.Must(w.resource(group, resource).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
}

// pod creates a pod on a node without a kubelet.
func (w *world) pod(name string, grace int64, finalizers ...string) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
	pod.Spec = corev1.PodSpec{
		NodeName: "m", TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "a", Image: "a"}},
	}
	testcheck.Must(w.User.CoreV1().Pods("n").Create(ctx, pod, metav1.CreateOptions{}))
}

func (w *world) deletePod(name string) {
	w.NoError(w.User.CoreV1().Pods("n").Delete(ctx, name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
}

func (w *world) deleteNamespace() {
	w.NoError(w.User.CoreV1().Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}))
}

// left returns the objects in a namespace.
func (w *world) left(namespace string) string {
	var all []string
	for _, r := range w.Server.Resources() {
		id := r.Name
		if r.Group == "events.k8s.io" || !slices.Contains(r.Verbs, "list") {
			continue
		}
		if r.Custom != nil {
			id += "." + r.Group
		}
		for _, obj := range w.Server.List(id) {
			if obj.GetNamespace() == namespace {
				all = append(all, r.Name+"/"+obj.GetName())
			}
		}
	}
	return strings.Join(all, " ")
}

// state returns what remains of the namespace n, and the failures in its conditions.
func (w *world) state() string {
	obj, ok := w.Server.Get("namespaces", "", "n")
	if !ok {
		return "gone"
	}
	text := w.left("n")
	for _, c := range obj.(*corev1.Namespace).Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			text += fmt.Sprintf("; %s %s: %s", c.Type, c.Reason, c.Message)
		}
	}
	return text
}

func (w *world) want(state, when string) {
	w.Helper()
	w.Run()
	if diff := cmp.Diff(state, w.state()); diff != "" {
		w.Fatalf("%s (-want +got):\n%s\n%s", when, diff, w.Host.Log().Text())
	}
}

// kept is the state while c and w are kept by finalizers.
const kept = "configmaps/c widgets/w; NamespaceContentRemaining SomeResourcesRemain: Some resources are remaining: " +
	"configmaps. has 1 resource instances, widgets.example.com has 1 resource instances; " +
	"NamespaceFinalizersRemaining SomeFinalizersRemain: Some content in the namespace has finalizers remaining: " +
	"x.io/a in 2 resource instances, x.io/b in 1 resource instances"

func TestNamespace(t *testing.T) {
	fill := func(w *world) {
		w.create("", "configmaps", "a")
		w.create("", "secrets", "b")
		w.create("example.com", "widgets", "x")
	}
	scenarios := []struct {
		name  string
		make  func(w *world)
		parts []part
	}{
		{"empty", func(*world) {}, []part{{nil, "gone"}}},
		{"filled", fill, []part{{nil, "gone"}}},
		{"kept by finalizers", func(w *world) {
			fill(w)
			w.create("", "configmaps", "c", "x.io/a", "x.io/b")
			w.create("example.com", "widgets", "w", "x.io/a")
		}, []part{
			{nil, kept},
			{
				func(w *world) { w.release("example.com", "widgets", "w") },
				"configmaps/c; NamespaceContentRemaining SomeResourcesRemain: Some resources are remaining: " +
					"configmaps. has 1 resource instances; NamespaceFinalizersRemaining SomeFinalizersRemain: " +
					"Some content in the namespace has finalizers remaining: x.io/a in 1 resource instances, x.io/b in 1 resource instances",
			},
			{
				func(w *world) {
					testcheck.Must(w.resource("", "configmaps").Patch(ctx, "c", types.MergePatchType,
						[]byte(`{"metadata":{"finalizers":["x.io/b"]}}`), metav1.PatchOptions{}))
				},
				"configmaps/c; NamespaceContentRemaining SomeResourcesRemain: Some resources are remaining: " +
					"configmaps. has 1 resource instances; NamespaceFinalizersRemaining SomeFinalizersRemain: " +
					"Some content in the namespace has finalizers remaining: x.io/b in 1 resource instances",
			},
			{func(w *world) { w.release("", "configmaps", "c") }, "gone"},
		}},
		{"pods go first", func(w *world) {
			fill(w)
			w.pod("p", 30)
			w.pod("q", 10, "x.io/a")
			w.deleteNamespace()
		}, []part{
			{func(w *world) { w.deletePod("p"); w.deletePod("q"); w.release("", "pods", "q") }, "gone"},
		}},
		{"a pod that is not deleted", func(w *world) { fill(w); w.pod("p", 30) }, []part{
			// At rest time advances, and the pod's grace period ends.
			{nil, "pods/p secrets/b configmaps/a configmaps/kube-root-ca.crt serviceaccounts/default widgets/x; " +
				"NamespaceDeletionContentFailure ContentDeletionFailed: Failed to delete all resource types, 1 remaining: " +
				"unexpected items still remain in namespace: n for gvr: /v1, Resource=pods"},
			{func(w *world) { w.deletePod("p") }, "gone"},
		}},
		{"another's finalizer", func(w *world) {
			testcheck.Must(w.User.CoreV1().Namespaces().Patch(ctx, "n", types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":["x.io/n"]}}`), metav1.PatchOptions{}))
		}, []part{
			{nil, ""},
			{func(w *world) {
				testcheck.Must(w.User.CoreV1().Namespaces().Patch(ctx, "n", types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
			}, "gone"},
		}},
	}
	for _, tt := range scenarios {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(20) {
				w := newWorld(t, stepped(sim.NewSeeded(seed)))
				tt.make(w)
				w.deleteNamespace()
				for i, p := range tt.parts {
					if p.act != nil {
						p.act(w)
					}
					w.want(p.want, fmt.Sprintf("seed %d, part %d", seed, i))
				}
			}
		})
		t.Run(tt.name+", restarted anywhere", func(t *testing.T) {
			for at := 0; at < 200; at += 3 {
				w := newWorld(t, stepped(sim.FIFO{}))
				tt.make(w)
				w.deleteNamespace()
				for i, p := range tt.parts {
					if p.act != nil {
						p.act(w)
					}
					for range at {
						w.Host.(*sim.Stepped).Step()
					}
					w.restart(sim.NewSeeded(uint64(at)))
					w.want(p.want, fmt.Sprintf("part %d restarted after step %d", i, at))
				}
			}
		})
	}
}

// part is an action, and the state afterwards.
type part struct {
	act  func(w *world)
	want string
}

// Without a deleted namespace, the controller has nothing to do.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t, stepped(nil))
	w.create("", "configmaps", "a", "x.io/a")
	w.NoError(w.User.CoreV1().ConfigMaps("n").Delete(ctx, "a", metav1.DeleteOptions{}))
	w.release("", "configmaps", "a")
	testcheck.Must(w.User.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "m"}},
		metav1.CreateOptions{}))
	w.Run()
	if got := w.Host.(*sim.Stepped).Steps(); got != 0 {
		t.Errorf("%d steps\n%s", got, w.Host.Log().Text())
	}
}

// Content is deleted in discovery order, pods first. There are no other requests.
func TestOrder(t *testing.T) {
	w := newWorld(t, stepped(nil))
	w.create("", "configmaps", "a")
	w.deleteNamespace()
	w.want("gone", "")
	var got []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && r.Task != "user" {
			got = append(got, r.Verb+" "+r.Object)
		}
	}
	want := []string{"get namespaces/n", "list pods/n", "deletecollection pods/n", "list pods/n"}
	for _, list := range w.preferred() {
		for _, r := range list.APIResources {
			if r.Namespaced && r.Name != "pods" && slices.Contains(r.Verbs, "delete") {
				want = append(want, "deletecollection "+r.Name+"/n", "list "+r.Name+"/n")
			}
		}
	}
	want = append(want, "update/status namespaces/n", "update/finalize namespaces/n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// Incomplete discovery keeps the namespace, and is reported.
func TestDiscoveryFails(t *testing.T) {
	w := newWorld(t, stepped(nil))
	w.discovery = fmt.Errorf("no such group")
	w.create("", "configmaps", "a")
	w.deleteNamespace()
	w.Until("the condition", func() bool { return strings.Contains(w.state(), "DiscoveryFailed") })
	if got, want := w.state(), "; NamespaceDeletionDiscoveryFailure DiscoveryFailed: no such group"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.discovery = nil
	w.want("gone", "discovered")
}

func TestLive(t *testing.T) {
	w := newWorld(t, func() sim.Host { return sim.NewLive(sim.LiveConfig{}) })
	w.Explain = w.state
	w.create("example.com", "widgets", "w", "x.io/a")
	w.pod("p", 30)
	w.Host.Start()
	user := w.Server.Client(w.Host.ExternalCaller())
	w.NoError(user.CoreV1().Namespaces().Delete(t.Context(), "n", metav1.DeleteOptions{}))
	deleting := func(resource, name string) func() bool {
		return func() bool {
			obj, ok := w.Server.Get(resource, "n", name)
			return ok && obj.GetDeletionTimestamp() != nil
		}
	}
	w.Until("pod to be deleted", deleting("pods", "p"))
	w.NoError(user.CoreV1().Pods("n").Delete(t.Context(), "p",
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	w.Until("widget to be deleted", deleting("widgets.example.com", "w"))
	r, _ := user.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "n")
	testcheck.Must(r.Patch(t.Context(), "w", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}))
	w.Until("namespace to be gone", func() bool { return w.state() == "gone" })
}

// While a webhook cannot convert the objects of a custom resource, they stay, and so does the
// namespace.
func TestFailingConversion(t *testing.T) {
	w := newWorld(t, stepped(nil))
	converted := widgets
	converted.Versions, converted.Storage = []string{"v2", "v1"}, "v1"
	failure := errors.New("the webhook is down")
	converted.Webhook = func([]*fake.CustomObject, string) error { return failure }
	w.Server.Install(converted)
	w.create("example.com", "widgets", "w")
	w.create("", "configmaps", "a")
	w.deleteNamespace()
	want := "widgets/w widgets/w; NamespaceDeletionContentFailure ContentDeletionFailed: Failed to delete all resource types, " +
		"1 remaining: the webhook is down"
	w.Until("the condition", func() bool { return strings.Contains(w.state(), "ContentDeletionFailed") })
	if got := w.state(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	failure = nil
	w.want("gone", "the webhook works")
}
