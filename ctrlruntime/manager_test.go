package ctrlruntime_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/ctrlruntime"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// reconciling returns an operator whose only controller reconciles boxes by a function.
func reconciling(reads fake.Reads, build func(mgr manager.Manager) reconcile.Func) cluster.Component {
	return ctrlruntime.Component(ctrlruntime.Config{
		Name: "operator", Scheme: scheme, Reads: reads, Install: installBoxes,
		Setup: func(mgr manager.Manager) error {
			return builder.ControllerManagedBy(mgr).For(&Box{}).Complete(build(mgr))
		},
	})
}

// worlds runs a test in a stepped and in a live world.
func worlds(t *testing.T, operator func() cluster.Component, test func(t *testing.T, c *cluster.Cluster)) {
	t.Run("stepped", func(t *testing.T) { test(t, operated(t, operator())) })
	t.Run("live", func(t *testing.T) {
		c, err := cluster.New(cluster.Config{
			Components: []string{}, Devices: cluster.Array, Extra: []cluster.Component{operator()},
			API: fake.Config{SkipBootstrap: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		c.Host().Start()
		test(t, c)
	})
}

// wait runs the world until it has a number of secrets.
func wait(t *testing.T, c *cluster.Cluster, secrets int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Wait(ctx, fmt.Sprintf("%d secrets", secrets), func() bool {
		return len(c.Server().List("secrets")) == secrets
	}); err != nil {
		t.Fatal(err)
	}
}

// The same operator runs in a stepped and in a live world, wherever it reads, and leaves no
// goroutines.
func TestWorlds(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, reads := range []fake.Reads{fake.ReadCache, fake.ReadYourWrites, fake.ReadLive} {
		t.Run("reads "+string(reads), func(t *testing.T) {
			worlds(t, func() cluster.Component { return boxes(reads, nil) }, func(t *testing.T, c *cluster.Cluster) {
				for i := range 5 {
					create(t, c, newBox(fmt.Sprint("box-", i), ""))
				}
				wait(t, c, 5)
				if err := user(t, c).DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace("default"),
					client.MatchingLabels{"box": "box-3"}); err != nil {
					t.Fatal(err)
				}
				wait(t, c, 5)
			})
		})
	}
	noGoroutinesSince(t, before)
}

// noGoroutinesSince fails if there are more goroutines than before.
func noGoroutinesSince(t *testing.T, before int) {
	t.Helper()
	buffer := make([]byte, 1<<20)
	for range 1000 {
		all := string(buffer[:runtime.Stack(buffer, true)]) // unlike NumGoroutine, without those of finalizers
		if strings.Count(all, "\n\ngoroutine ")+1 <= before {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("goroutines: %s", buffer[:runtime.Stack(buffer, true)])
}

// Two controllers with several workers reconcile different objects at once, and one object once at
// a time.
func TestControllersAndWorkers(t *testing.T) {
	var most int
	worlds(t, func() cluster.Component {
		most = 0
		return ctrlruntime.Component(ctrlruntime.Config{
			Name: "operator", Scheme: scheme, Install: installBoxes,
			Setup: func(mgr manager.Manager) error {
				running := map[string]int{}
				for _, name := range []string{"blue", "red"} {
					r := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
						if running[name+request.Name]++; running[name+request.Name] > 1 {
							t.Errorf("%s reconciles %s twice at once", name, request.Name)
						}
						defer func() { delete(running, name+request.Name) }()
						most = max(most, len(running))
						secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-" + request.Name}}
						return reconcile.Result{}, client.IgnoreAlreadyExists(mgr.GetClient().Create(ctx, secret))
					})
					if err := builder.ControllerManagedBy(mgr).Named(name).For(&Box{}).
						WithOptions(controller.Options{MaxConcurrentReconciles: 3}).Complete(r); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}, func(t *testing.T, c *cluster.Cluster) {
		host, stepped := c.Host().(*sim.Stepped)
		if stepped {
			host.SetStrategy(sim.NewRandom(1))
		}
		for i := range 5 {
			create(t, c, newBox(fmt.Sprint("box-", i), ""))
		}
		wait(t, c, 10)
		if stepped && most < 3 {
			t.Errorf("at most %d reconciles at once", most)
		}
	})
}

// Events are written as requests of the process, for objects of the operator's own types, too.
func TestEvents(t *testing.T) {
	for name, record := range map[string]func(mgr manager.Manager, box *Box){
		"GetEventRecorderFor": func(mgr manager.Manager, box *Box) {
			mgr.GetEventRecorderFor("boxes").Eventf(box, corev1.EventTypeNormal, "Packed", "%d items", 3) //nolint:staticcheck // operators use it
		},
		"GetEventRecorder": func(mgr manager.Manager, box *Box) {
			mgr.GetEventRecorder("boxes").Eventf(box, nil, corev1.EventTypeNormal, "Packed", "Pack", "%d items", 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			worlds(t, func() cluster.Component {
				return reconciling(fake.ReadLive, func(mgr manager.Manager) reconcile.Func {
					return func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
						box := &Box{}
						if err := mgr.GetClient().Get(ctx, request.NamespacedName, box); err != nil {
							return reconcile.Result{}, err
						}
						box.TypeMeta = metav1.TypeMeta{} // as after an update by some versions
						record(mgr, box)
						return reconcile.Result{}, nil
					}
				})
			}, func(t *testing.T, c *cluster.Cluster) {
				create(t, c, newBox("a", ""))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := c.Wait(ctx, "an event", func() bool { return len(c.Server().List("events")) > 0 }); err != nil {
					t.Fatal(err)
				}
				event := c.Server().List("events")[0].(*corev1.Event)
				if event.Message != "3 items" || event.Reason != "Packed" || event.Source.Component != "boxes" ||
					event.InvolvedObject.Kind != "Box" || event.InvolvedObject.APIVersion != "example.com/v1" {
					t.Errorf("event %+v", event)
				}
			})
		})
	}
}

// The builder's OnlyMetadata, and unstructured objects in For, work. A client reads metadata from the
// cache, and unstructured objects from the server.
func TestMetadataAndUnstructured(t *testing.T) {
	untyped := func() *unstructured.Unstructured {
		out := &unstructured.Unstructured{}
		out.SetGroupVersionKind(version.WithKind("Box"))
		return out
	}
	var seen []string
	c := operated(t, ctrlruntime.Component(ctrlruntime.Config{
		Name: "operator", Scheme: scheme, Install: installBoxes,
		Setup: func(mgr manager.Manager) error {
			own := builder.ControllerManagedBy(mgr).Named("metadata").For(&Box{}, builder.OnlyMetadata).
				Owns(&corev1.Secret{}, builder.OnlyMetadata)
			if err := own.Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				box := &metav1.PartialObjectMetadata{}
				box.SetGroupVersionKind(version.WithKind("Box"))
				if err := mgr.GetClient().Get(ctx, r.NamespacedName, box); err != nil {
					return reconcile.Result{}, err
				}
				seen = append(seen, "metadata of "+box.Name)
				return reconcile.Result{}, nil
			})); err != nil {
				return err
			}
			return builder.ControllerManagedBy(mgr).Named("unstructured").For(untyped()).Complete(reconcile.Func(
				func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					box := untyped()
					if err := mgr.GetClient().Get(ctx, r.NamespacedName, box); err != nil {
						return reconcile.Result{}, err
					}
					config, _, _ := unstructured.NestedString(box.Object, "spec", "config")
					seen = append(seen, "config "+config)
					return reconcile.Result{}, nil
				}))
		},
	}))
	create(t, c, newBox("a", "x"))
	rest(t, c)
	if want := []string{"metadata of a", "config x"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
	gets := 0
	for _, r := range c.Trace().Records() {
		if strings.HasPrefix(r.Task, "operator/") && r.Action.Verb == "get" {
			gets++
		}
	}
	if gets != 1 {
		t.Errorf("%d requests get, want that of the unstructured object only", gets)
	}
}

// GetAPIReader reads from the server, the client from the cache.
func TestAPIReader(t *testing.T) {
	var live, cached error
	c := operated(t, reconciling(fake.ReadCache, func(mgr manager.Manager) reconcile.Func {
		return func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
			if err := mgr.GetClient().Get(ctx, client.ObjectKeyFromObject(secret), secret); err == nil {
				return reconcile.Result{}, nil
			}
			if err := mgr.GetClient().Create(ctx, secret); err != nil {
				return reconcile.Result{}, err
			}
			live = mgr.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{})
			cached = mgr.GetClient().Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{})
			return reconcile.Result{}, nil
		}
	}))
	create(t, c, newBox("a", ""))
	host := c.Host().(*sim.Stepped)
	for live == nil && cached == nil { // everything but the cache of secrets after it has listed
		i := slices.IndexFunc(host.Enabled(), func(task string) bool {
			return task != "operator/cache secrets" || len(c.Server().List("secrets")) == 0
		})
		if i < 0 {
			break
		}
		task, _, _ := strings.Cut(host.Enabled()[i], ":")
		if err := host.StepTask(task); err != nil {
			t.Fatal(err)
		}
	}
	if live != nil || client.IgnoreNotFound(cached) != nil || cached == nil {
		t.Errorf("live read: %v; read from the cache: %v", live, cached)
	}
}

// A field selector uses the index of the form of the list; without one it is an error.
func TestFieldIndices(t *testing.T) {
	var typed BoxList
	metadata := &metav1.PartialObjectMetadataList{}
	metadata.SetGroupVersionKind(version.WithKind("BoxList"))
	var errs []error
	c := operated(t, ctrlruntime.Component(ctrlruntime.Config{
		Name: "operator", Scheme: scheme, Install: installBoxes,
		Setup: func(mgr manager.Manager) error {
			box := &metav1.PartialObjectMetadata{}
			box.SetGroupVersionKind(version.WithKind("Box"))
			indices := mgr.GetFieldIndexer()
			err := errors.Join(
				indices.IndexField(t.Context(), &Box{}, "config", func(o client.Object) []string { return []string{o.(*Box).Spec.Config} }),
				indices.IndexField(t.Context(), box, "config", func(o client.Object) []string { return []string{o.GetName()} }))
			if err != nil {
				return err
			}
			if indices.IndexField(t.Context(), &Box{}, "config", nil) == nil {
				return errors.New("two indices of one name")
			}
			return builder.ControllerManagedBy(mgr).For(&Box{}).Complete(reconcile.Func(
				func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					errs = []error{
						mgr.GetClient().List(ctx, &typed, client.MatchingFields{"config": "x"}),
						mgr.GetClient().List(ctx, metadata, client.MatchingFields{"config": "c"}),
						mgr.GetClient().List(ctx, &BoxList{}, client.MatchingFields{"other": "x"}),
						mgr.GetCache().List(ctx, &BoxList{}, client.MatchingFields{"config": "x"}, client.InNamespace("other")),
					}
					return reconcile.Result{}, nil
				}))
		},
	}))
	create(t, c, newBox("a", "x"), newBox("b", "y"), newBox("c", "x"))
	rest(t, c)
	if len(typed.Items) != 2 || typed.Items[0].Name != "a" || typed.Items[1].Name != "c" || len(metadata.Items) != 1 || metadata.Items[0].Name != "c" {
		t.Errorf("typed %v, metadata %v", typed.Items, metadata.Items)
	}
	if errs[0] != nil || errs[1] != nil || errs[3] != nil || errs[2] == nil ||
		errs[2].Error() != "Index with name field:other does not exist" {
		t.Errorf("errors %v", errs)
	}
}

// The logs of the manager and of a reconciler go to Config.Logger, with the values of the controller.
func TestLogs(t *testing.T) {
	var lines []string
	c := operated(t, ctrlruntime.Component(ctrlruntime.Config{
		Name: "operator", Scheme: scheme, Install: installBoxes,
		Logger: funcr.New(func(prefix, args string) { lines = append(lines, args) }, funcr.Options{}),
		Setup: func(mgr manager.Manager) error {
			mgr.GetLogger().Info("set up")
			return builder.ControllerManagedBy(mgr).For(&Box{}).Complete(reconcile.Func(
				func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					log.FromContext(ctx).Info("reconciled")
					return reconcile.Result{}, nil
				}))
		},
	}))
	create(t, c, newBox("a", ""))
	rest(t, c)
	if len(lines) < 2 || !strings.Contains(lines[0], `"msg"="set up"`) ||
		!strings.Contains(lines[len(lines)-1], `"msg"="reconciled" "controller"="box"`) ||
		!strings.Contains(lines[len(lines)-1], `"namespace"="default" "name"="a"`) {
		t.Errorf("logs:\n%s", strings.Join(lines, "\n"))
	}
}

// What main of a kubebuilder project calls is accepted: checks of health, and a look at the election.
// A manager that is started, and webhooks, are refused.
func TestKubebuilderMain(t *testing.T) {
	c := operated(t, ctrlruntime.Component(ctrlruntime.Config{
		Name: "operator", Scheme: scheme, Install: installBoxes,
		Setup: func(mgr manager.Manager) error {
			select {
			case <-mgr.Elected():
			default:
				t.Error("not elected")
			}
			return errors.Join(mgr.AddHealthzCheck("healthz", healthz.Ping), mgr.AddReadyzCheck("readyz", healthz.Ping),
				mgr.AddMetricsServerExtraHandler("/x", nil), builder.ControllerManagedBy(mgr).For(&Box{}).Complete(nothing))
		},
	}))
	rest(t, c)
	for _, refused := range []struct {
		want string
		do   func(mgr manager.Manager) error
	}{
		{"must not be started", func(mgr manager.Manager) error { return mgr.Start(t.Context()) }},
		{"webhooks are not called", func(mgr manager.Manager) error {
			mgr.GetWebhookServer().Register("/x", nil)
			return nil
		}},
	} {
		_, err := cluster.New(cluster.Config{
			Components: []string{}, Stepped: &sim.SteppedConfig{}, Extra: []cluster.Component{ctrlruntime.Component(ctrlruntime.Config{
				Name: "operator", Scheme: scheme, Install: installBoxes, Setup: func(mgr manager.Manager) error {
					return errors.Join(builder.ControllerManagedBy(mgr).For(&Box{}).Complete(nothing), refused.do(mgr))
				},
			})},
		})
		if err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("error %v, want %q", err, refused.want)
		}
	}
}

var nothing = reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{}, nil
})
