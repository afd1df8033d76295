package garbagecollector_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// TestCollect has the cases of upstream's integration tests (test/integration/garbagecollector),
// and of its tables TestAttemptToDeleteItem and TestConflictingData.
func TestCollect(t *testing.T) {
	tests := []struct {
		name string
		make func(w *world)
		then func(w *world) // after the collector has observed everything
		want string
	}{
		{
			"without an owned object nothing is deleted", func(w *world) { w.create("a") },
			func(w *world) { w.delete("a", background) }, "",
		},
		{
			"background", func(w *world) { w.create("a"); w.create("b", "a"); w.create("c", "b") },
			func(w *world) { w.delete("a", background) }, "",
		},
		{
			"another owner stays: the reference is removed",
			func(w *world) { w.create("a"); w.create("b"); w.create("c", "a", "b") },
			func(w *world) { w.delete("a", background) }, "b c>b",
		},
		{
			"orphan", func(w *world) { w.create("a"); w.create("b", "a"); w.create("c", "b") },
			func(w *world) { w.delete("a", orphan) }, "b c>b",
		},
		{
			"orphan of custom resources, which do not support strategic merge patches",
			func(w *world) { w.create("Widget/a"); w.create("Widget/b", "Widget/a"); w.create("x", "Widget/a") },
			func(w *world) { w.delete("Widget/a", orphan) }, "x b",
		},
		{
			"a custom resource's reference is removed",
			func(w *world) { w.create("a"); w.create("b"); w.create("Widget/c", "a", "b") },
			func(w *world) { w.delete("a", background) }, "b c>b",
		},
		{
			"foreground", func(w *world) { w.create("a"); w.create("b", "a!"); w.create("c", "b!") },
			func(w *world) { w.delete("a", foreground) }, "",
		},
		{
			"foreground waits for blocking dependents", func(w *world) {
				w.create("a")
				w.create("b", "a!")
				w.patch("b", `{"metadata":{"finalizers":["x.io/wait"]}}`)
			},
			func(w *world) { w.delete("a", foreground) }, "a+foregroundDeletion b>a+x.io/wait",
		},
		{
			"foreground does not wait for dependents that do not block", func(w *world) {
				w.create("a")
				w.create("b", "a")
				w.patch("b", `{"metadata":{"finalizers":["x.io/wait"]}}`)
			},
			func(w *world) { w.delete("a", foreground) }, "b>a+x.io/wait",
		},
		{
			"foreground, another owner stays",
			func(w *world) { w.create("a"); w.create("b"); w.create("c", "a!", "b!") },
			func(w *world) { w.delete("a", foreground) }, "b c>b",
		},
		{
			"a dependent stops blocking", func(w *world) {
				w.create("a")
				w.create("b", "a!")
				w.patch("b", `{"metadata":{"finalizers":["x.io/wait"]}}`)
				w.delete("a", foreground)
				w.Run()
			},
			func(w *world) {
				ref := w.reference("a")
				w.patch("b", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":%q,"blockOwnerDeletion":false}]}}`, ref.UID))
			}, "b>a+x.io/wait",
		},
		{
			"a cycle in the background", func(w *world) {
				w.create("a")
				w.create("b", "a")
				w.own("a", "b")
			},
			func(w *world) { w.delete("a", background) }, "",
		},
		{
			"a cycle in the foreground", func(w *world) {
				w.create("a")
				w.create("b", "a!")
				w.own("a", "b!")
			},
			func(w *world) { w.delete("a", foreground) }, "",
		},
		{
			"an owner deleted before its dependent is created", func(w *world) { w.create("b", "a?") }, nil, "",
		},
		{
			"another object with the owner's name", func(w *world) { w.create("a"); w.create("b", "a?") }, nil, "a",
		},
		{
			"a cluster-scoped owner",
			func(w *world) { w.create("Node/n"); w.create("b", "Node/n"); w.create("other/c", "Node/n") },
			func(w *world) { w.delete("Node/n", background) }, "",
		},
		{
			"an owner in another namespace does not count", func(w *world) { w.create("other/a"); w.create("b", "other/a") },
			nil, "a",
		},
		{
			"an owner in another namespace, and a valid one",
			func(w *world) { w.create("other/a"); w.create("o"); w.create("b", "other/a", "o") }, nil, "b>o o a",
		},
		{
			"a cluster-scoped object cannot have a namespaced owner",
			func(w *world) { w.create("a"); w.create("Node/n", "a") },
			func(w *world) { w.delete("a", background) }, "n>a",
		},
		{
			"valid and invalid references with one UID: the invalid one is removed", func(w *world) {
				w.create("Node/n")
				w.create("b", "Node/n")
				obj, client := w.newObject("c", "Node/n")
				refs := obj.GetOwnerReferences()
				refs[0].Name = "m"
				obj.SetOwnerReferences(refs)
				testcheck.Must(client.Create(ctx, obj, metav1.CreateOptions{}))
			}, nil, "b>n n",
		},
		{
			"absent by three identities", func(w *world) {
				for i, name := range []string{"Node/n", "m", "Widget/k"} {
					obj, client := w.newObject(fmt.Sprint("x", i), name+"?")
					refs := obj.GetOwnerReferences()
					refs[0].UID = "one"
					obj.SetOwnerReferences(refs)
					testcheck.Must(client.Create(ctx, obj, metav1.CreateOptions{}))
				}
			}, nil, "",
		},
		{
			"an existing orphan finalizer is honoured", func(w *world) {
				w.create("a")
				w.create("b", "a")
				w.create("c", "b")
				w.patch("b", `{"metadata":{"finalizers":["orphan"]}}`)
			},
			func(w *world) { w.delete("a", background) }, "c",
		},
		{
			"an event that names an owner is not collected", func(w *world) {
				event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Namespace: "default"}}
				event.Name, event.OwnerReferences = "e", []metav1.OwnerReference{w.reference("a?")}
				testcheck.Must(w.User.CoreV1().Events("default").Create(ctx, event, metav1.CreateOptions{}))
			},
			func(w *world) {
				if _, ok := w.Server.Get("events", "default", "e"); !ok {
					w.Error("the event was collected")
				}
			}, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(40) {
				w := newWorld(t, sim.NewSeeded(seed))
				tt.make(w)
				if tt.then != nil {
					w.Run()
					tt.then(w)
				}
				w.want(tt.want, fmt.Sprint("seed ", seed))
			}
		})
		t.Run(tt.name+", restarted anywhere", func(t *testing.T) {
			for at := range 30 {
				w := newWorld(t, sim.FIFO{})
				tt.make(w)
				if tt.then != nil {
					w.Run()
					tt.then(w)
				}
				steps := 0
				for ; steps < at && w.Host.(*sim.Stepped).Step(); steps++ {
				}
				w.restart(sim.NewSeeded(uint64(at)))
				w.want(tt.want, fmt.Sprint("restarted after step ", at))
				if steps < at {
					break
				}
			}
		})
	}
}

// own adds an owner to an existing object.
func (w *world) own(short, owner string) {
	ref := w.reference(owner)
	w.patch(short, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":%v}]}}`,
		ref.APIVersion, ref.Kind, ref.Name, ref.UID, ref.BlockOwnerDeletion != nil))
}

// Objects without owners and dependents cost no step.
func TestUnownedObjectsCostNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.Run()
	w.create("a")
	w.create("Node/n")
	w.create("Widget/x")
	w.patch("a", `{"metadata":{"labels":{"a":"b"},"finalizers":["x.io/a"]}}`)
	w.delete("a", background)
	w.patch("a", `{"metadata":{"finalizers":null}}`)
	w.Run()
	if got := w.Host.(*sim.Stepped).Steps(); got != 0 {
		t.Errorf("%d steps\n%s", got, w.Host.Log().Text())
	}
	w.create("b", "Node/n")
	w.Run()
	if got := w.Host.(*sim.Stepped).Steps(); got != 1 {
		t.Errorf("an owned object comes: %d steps, want the one that takes it in\n%s", got, w.Host.Log().Text())
	}
	w.patch("Node/n", `{"metadata":{"labels":{"a":"b"}}}`)
	w.patch("b", `{"metadata":{"labels":{"a":"b"}}}`)
	w.Run()
	if got := w.Host.(*sim.Stepped).Steps(); got != 1 {
		t.Errorf("labels change: %d steps more", got-1)
	}
}

// A deletion has the object's UID and resourceVersion as preconditions. If the object changed, but
// not its owners, it is deleted in its new version.
func TestPreconditions(t *testing.T) {
	setLabel := func(w *world) { w.patch("b", `{"metadata":{"labels":{"a":"b"}}}`) }
	tests := []struct {
		name   string
		before func(w *world) // before the first deletion of b takes effect
		left   string
		want   []string
	}{
		{
			"no change", func(*world) {}, "o",
			[]string{"delete configmaps/default/b"},
		},
		{
			"a label was set", setLabel, "o",
			[]string{"delete configmaps/default/b", "get configmaps/default/b", "delete configmaps/default/b"},
		},
		{
			"an owner is added", func(w *world) { w.own("b", "o") }, "b>o o",
			[]string{
				"delete configmaps/default/b", "get configmaps/default/b", "get configmaps/default/b",
				"get configmaps/default/o",
			},
		},
		{
			"recreated under its name", func(w *world) { w.delete("b", background); w.create("b") }, "b o",
			[]string{"delete configmaps/default/b", "get configmaps/default/b"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.create("o")
			w.create("a")
			w.create("b", "a")
			w.Run()
			done := false
			w.meddle = func(action trace.Action) {
				if action.Verb == "delete" && !done {
					done = true
					tt.before(w)
				}
			}
			w.delete("a", background)
			w.want(tt.left, "")
			all := w.requests()
			if diff := cmp.Diff(tt.want, all[slices.Index(all, "delete configmaps/default/b"):]); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// A write that conflicts is retried.
func TestConflicts(t *testing.T) {
	for _, how := range []metav1.DeletionPropagation{orphan, foreground} {
		t.Run(string(how), func(t *testing.T) {
			w := newWorld(t, nil)
			w.create("Widget/a")
			w.create("Widget/b", "Widget/a!")
			left := 3
			w.meddle = func(action trace.Action) {
				if action.Verb == "patch" && left > 0 {
					left--
					w.patch("Widget/"+action.Object[len(action.Object)-1:],
						fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, left))
				}
			}
			w.delete("Widget/a", how)
			want := map[metav1.DeletionPropagation]string{orphan: "b", foreground: ""}[how]
			w.want(want, "")
			if left > 0 {
				t.Error("nothing conflicted")
			}
		})
	}
}

// An object with an owner of an unserved kind waits until the kind is served.
func TestKindThatComesLater(t *testing.T) {
	w := newWorld(t, nil)
	w.Server.Uninstall("example.com", "widgets")
	w.gone = true
	obj, client := w.newObject("b")
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Widget", Name: "a", UID: "u"}})
	testcheck.Must(client.Create(ctx, obj, metav1.CreateOptions{}))
	w.want("b>a", "widgets are not served")
	w.Server.Install(widgets)
	w.gone = false
	w.want("", "widgets are served, and there is none")
	w.create("Widget/x")
	w.create("Widget/y", "Widget/x")
	w.create("c", "Widget/y")
	w.Run()
	w.delete("Widget/x", background)
	w.want("", "the owner of an owner went")
}

// When a custom resource ceases to be served, the dependents of its objects have no owner.
func TestKindThatGoes(t *testing.T) {
	w := newWorld(t, nil)
	w.create("Widget/x")
	w.create("b", "Widget/x")
	w.Run()
	w.Server.Uninstall("example.com", "widgets")
	w.Run()
	if _, ok := w.Server.Get("configmaps", "default", "b"); ok {
		t.Errorf("b is still there\n%s", w.Host.Log().Text())
	}
}

func TestOwnerInAnotherNamespaceIsReported(t *testing.T) {
	w := newWorld(t, nil)
	w.create("other/a")
	w.create("b", "other/a")
	uid := w.reference("other/a").UID
	w.Run()
	var got []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		got = append(got, fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.InvolvedObject.Name, e.Message))
	}
	want := []string{fmt.Sprintf(`Warning OwnerRefInvalidNamespace b: ownerRef [v1/ConfigMap, namespace: default, name: a, uid: %s] `+
		`does not exist in namespace "default"`, uid)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestLive(t *testing.T) {
	w := newWorldOn(t, sim.NewLive(sim.LiveConfig{}))
	w.Explain = w.left
	w.create("a")
	w.create("b", "a!")
	w.create("Widget/c", "b!")
	w.create("d", "a")
	w.create("e")
	w.Host.Start()
	policy := metav1.DeletePropagationForeground
	user := w.Server.Client(w.Host.ExternalCaller())
	w.NoError(user.CoreV1().ConfigMaps("default").Delete(t.Context(), "a",
		metav1.DeleteOptions{PropagationPolicy: &policy}))
	w.Until("all but e to be gone", func() bool { return w.left() == "e" })
}

// If the log of a resource was compacted before the collector read it, the collector lists again.
func TestLaggingCollectorListsAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.create("a")
	w.create("b", "a")
	w.create("c")
	w.Run()
	w.delete("a", background)
	w.create("d", "c")
	w.delete("c", background)
	w.Server.Compact()
	w.want("", "compacted")
	if n := strings.Count(w.Host.Log().Text(), "LIST configmaps"); n != 1 {
		t.Errorf("%d lists, want 1\n%s", n, w.Host.Log().Text())
	}
}

// While a webhook cannot convert a custom object, neither the object nor its dependents are
// deleted: the collector cannot read it.
func TestFailingConversion(t *testing.T) {
	w := newWorld(t, nil)
	converted := widgets
	converted.Versions, converted.Storage = []string{"v1", "v2"}, "v2"
	var failure error
	converted.Webhook = func([]*fake.CustomObject, string) error { return failure }
	w.Server.Install(converted)
	w.create("Widget/x")
	w.create("b", "Widget/x")
	w.create("Node/n")
	w.create("Widget/y", "Node/n")
	w.create("c", "Widget/y")
	w.Run()
	failure = errors.New("the webhook is down")
	w.restart(nil) // the collector looks up every owner
	w.delete("Node/n", background)
	failures := 0
	w.Until("the collector to fail", func() bool {
		failures = 0
		for _, r := range w.Host.Log().Records() {
			if r.Err != nil && r.Err.Error() == failure.Error() && strings.HasPrefix(r.Task, "garbagecollector/") {
				failures++
			}
		}
		return failures == 5
	})
	if got, want := w.left(), "b>x c>y x y>n"; got != want {
		t.Fatalf("left %q, want %q", got, want)
	}
	failure = nil
	w.want("b>x x", "the webhook works")
}
