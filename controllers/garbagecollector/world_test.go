package garbagecollector_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

// world is a server with a garbage collector. Objects are written as "a", "namespace/a", "Node/a"
// and "Widget/a": config maps of namespace default or another, nodes, and custom objects.
type world struct {
	testing.TB
	host   sim.Host
	server *fake.Server
	user   *fake.Clientset // acts at once

	collector *sim.Process
	gone      bool                      // widgets are not served
	doing     string                    // the verb of the collector's request that takes effect now
	meddle    func(action trace.Action) // before each request of the collector takes effect
}

var widgets = fake.CustomKind{
	Group: "example.com", Versions: []string{"v1"}, Resource: "widgets", Singular: "widget", Kind: "Widget",
	ListKind:   "WidgetList",
	Namespaced: true,
}

func newWorld(t testing.TB, chooser sim.Chooser) *world {
	return newWorldOn(t, sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000}))
}

func newWorldOn(t testing.TB, host sim.Host) *world {
	w := &world{TB: t, host: host}
	w.server = fake.NewServer(fake.Config{Now: w.now, Namespaces: []string{"other"}})
	w.server.Install(widgets)
	w.user = w.server.Client(testworld.ImmediateCaller(w.now))
	t.Cleanup(func() { w.host.Close() })
	w.run()
	return w
}

// beforeCall lets a test act just before a request of the collector takes effect.
type beforeCall struct {
	sim.Caller
	w *world
}

func (m beforeCall) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return m.Caller.Call(action, func() trace.Outcome {
		if m.w.meddle != nil {
			m.w.meddle(action)
		}
		m.w.doing = action.Verb
		defer func() { m.w.doing = "" }()
		return effect()
	})
}

// now returns the time of the present host.
func (w *world) now() time.Time { return w.host.Now() }

// run starts a garbage collector.
func (w *world) run() {
	w.collector = w.host.Process("garbagecollector")
	client := w.server.Client(beforeCall{w.collector, w})
	garbagecollector.New(garbagecollector.Config{
		Process: w.collector, Client: client.Metadata(), Watcher: w.server.MetadataWatcher(w.collector),
		Recorder: events.New(events.Config{Process: w.collector, Client: client, Source: garbagecollector.EventSource}),
	})
}

// restart closes the host, and starts another one with a new collector.
func (w *world) restart(chooser sim.Chooser) {
	w.host.Close()
	w.server.RemoveComponent(w.collector)
	w.host = sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000})
	w.run()
}

func (w *world) settle() {
	w.Helper()
	if err := w.host.(*sim.Stepped).Run(); err != nil {
		w.Fatalf("%v\n%s", err, w.host.Log().Text())
	}
}

// place returns kind, namespace and name of an object's short form, and the client for it.
func (w *world) place(short string) (kind schema.GroupVersionKind, name string, client fake.ResourceClient) {
	kind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	namespace, name := "default", short
	if before, after, ok := strings.Cut(short, "/"); ok {
		name = after
		switch before {
		case "Node":
			kind, resource, namespace = corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithResource("nodes"), ""
		case "Widget":
			gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
			kind, resource = gv.WithKind("Widget"), gv.WithResource("widgets")
		default:
			namespace = before
		}
	}
	client, ok := w.user.Resource(resource, namespace)
	if !ok {
		w.Fatalf("not served: %v", resource)
	}
	return kind, name, client
}

// newObject returns an object with owners: "a", "a!" if it blocks the owner's deletion, "a?" if the
// owner does not exist.
func (w *world) newObject(short string, owners ...string) (fake.Object, fake.ResourceClient) {
	w.Helper()
	_, name, client := w.place(short)
	obj := client.New()
	obj.SetName(name)
	var refs []metav1.OwnerReference
	for _, owner := range owners {
		refs = append(refs, w.reference(owner))
	}
	obj.SetOwnerReferences(refs)
	return obj, client
}

func (w *world) reference(owner string) metav1.OwnerReference {
	owner, blocking := strings.CutSuffix(owner, "!")
	owner, absent := strings.CutSuffix(owner, "?")
	kind, name, client := w.place(owner)
	ref := metav1.OwnerReference{Name: name, UID: types.UID("uid-of-" + name)}
	ref.APIVersion, ref.Kind = kind.ToAPIVersionAndKind()
	if !absent {
		ref.UID = testcheck.Must(client.Get(ctx, name, metav1.GetOptions{})).GetUID()
	}
	if blocking {
		ref.BlockOwnerDeletion = ptr.To(true)
	}
	return ref
}

func (w *world) create(short string, owners ...string) {
	w.Helper()
	obj, client := w.newObject(short, owners...)
	testcheck.Must(client.Create(ctx, obj, metav1.CreateOptions{}))
}

func (w *world) delete(short string, how metav1.DeletionPropagation) {
	w.Helper()
	_, name, client := w.place(short)
	testcheck.Must(client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &how}))
}

func (w *world) patch(short, data string) {
	w.Helper()
	_, name, client := w.place(short)
	testcheck.Must(client.Patch(ctx, name, types.MergePatchType, []byte(data), metav1.PatchOptions{}))
}

// left returns the remaining objects with owners and finalizers: "a b>a c>a,b +finalizer".
func (w *world) left() string {
	var all []string
	for _, resource := range []string{"configmaps", "nodes", "widgets.example.com"} {
		if resource == "widgets.example.com" && w.gone {
			continue
		}
		for _, obj := range w.server.List(resource) {
			if obj.GetName() == "kube-root-ca.crt" {
				continue
			}
			text := obj.GetName()
			var owners []string
			for _, ref := range obj.GetOwnerReferences() {
				owners = append(owners, ref.Name)
			}
			if len(owners) > 0 {
				text += ">" + strings.Join(owners, ",")
			}
			if f := obj.GetFinalizers(); len(f) > 0 {
				text += "+" + strings.Join(f, "+")
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}

func (w *world) want(left, when string) {
	w.Helper()
	w.settle()
	if got := w.left(); got != left {
		w.Fatalf("%s: left %q, want %q\n%s", when, got, left, w.host.Log().Text())
	}
}

// requests returns the requests of the collector.
func (w *world) requests(verbs ...string) []string {
	var all []string
	for _, r := range w.host.Log().Records() {
		if r.Kind == trace.KindAPI && strings.HasPrefix(r.Task, "garbagecollector/") &&
			(len(verbs) == 0 || slices.Contains(verbs, r.Verb)) {
			all = append(all, fmt.Sprintf("%s %s", r.Verb, r.Object))
		}
	}
	return all
}
