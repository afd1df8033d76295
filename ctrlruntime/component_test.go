package ctrlruntime_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/ctrlruntime"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A Box is a custom object that wants one Secret of its own.
type Box struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BoxSpec `json:"spec,omitempty"`
}

// A BoxSpec names a ConfigMap that the box depends on.
type BoxSpec struct {
	Config string `json:"config,omitempty"`
}

// A BoxList is a list of boxes.
type BoxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Box `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (b *Box) DeepCopyObject() apiruntime.Object {
	out := *b
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *BoxList) DeepCopyObject() apiruntime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Box))
	}
	return &out
}

var (
	version = schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme  = newScheme()
)

func newScheme() *apiruntime.Scheme {
	s := apiruntime.NewScheme()
	if err := clientscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	s.AddKnownTypes(version, &Box{}, &BoxList{})
	metav1.AddToGroupVersion(s, version)
	return s
}

func installBoxes(s *fake.Server) error {
	s.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1"}, Kind: "Box", Resource: "boxes", Namespaced: true,
	})
	return nil
}

// A boxReconciler creates a Secret for each Box, unless it finds one.
type boxReconciler struct {
	client.Client
	reconciled *[]string // names of the reconciled boxes
}

// SetupWithManager adds the controller, as kubebuilder writes it.
func (r *boxReconciler) SetupWithManager(mgr manager.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &Box{}, "spec.config",
		func(o client.Object) []string { return []string{o.(*Box).Spec.Config} }); err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		For(&Box{}, builder.WithPredicates(predicate.NewPredicateFuncs(
			func(o client.Object) bool { return !strings.HasPrefix(o.GetName(), "ignored") }))).
		Owns(&corev1.Secret{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.boxesOf)).
		Complete(r)
}

// boxesOf returns the boxes that depend on a ConfigMap.
func (r *boxReconciler) boxesOf(ctx context.Context, config client.Object) []reconcile.Request {
	var boxes BoxList
	if err := r.List(ctx, &boxes, client.InNamespace(config.GetNamespace()),
		client.MatchingFields{"spec.config": config.GetName()}); err != nil {
		panic(err)
	}
	var out []reconcile.Request
	for i := range boxes.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&boxes.Items[i])})
	}
	return out
}

// Reconcile implements reconcile.Reconciler.
func (r *boxReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var box Box
	if err := r.Get(ctx, request.NamespacedName, &box); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if r.reconciled != nil {
		*r.reconciled = append(*r.reconciled, box.Name)
	}
	var secrets corev1.SecretList
	if err := r.List(ctx, &secrets, client.InNamespace(box.Namespace), client.MatchingLabels{"box": box.Name}); err != nil {
		return reconcile.Result{}, err
	}
	if len(secrets.Items) > 0 {
		return reconcile.Result{}, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		GenerateName: box.Name + "-", Namespace: box.Namespace, Labels: map[string]string{"box": box.Name},
	}}
	if err := controllerutil.SetControllerReference(&box, secret, r.Scheme()); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.Create(ctx, secret)
}

// boxes returns the operator.
func boxes(reads fake.Reads, reconciled *[]string) cluster.Component {
	return ctrlruntime.Component(ctrlruntime.Config{
		Name: "operator", Scheme: scheme, Reads: reads, Install: installBoxes,
		Setup: func(mgr manager.Manager) error {
			return (&boxReconciler{mgr.GetClient(), reconciled}).SetupWithManager(mgr)
		},
	})
}

// operated returns a stepped world with only an operator.
func operated(t testing.TB, operator cluster.Component) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(cluster.Config{
		Components: []string{}, Stepped: &sim.SteppedConfig{}, Extra: []cluster.Component{operator},
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
	return c
}

func rest(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func user(t testing.TB, c *cluster.Cluster) client.Client {
	t.Helper()
	out, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func create(t testing.TB, c *cluster.Cluster, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		obj.SetNamespace("default")
		if err := user(t, c).Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

func newBox(name, config string) *Box {
	return &Box{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: BoxSpec{Config: config}}
}

func secretsOf(t testing.TB, c *cluster.Cluster) int {
	t.Helper()
	var all corev1.SecretList
	if err := user(t, c).List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	return len(all.Items)
}

// For, Owns, Watches with a map function, predicates and an index work, and the same world has the
// same trace.
func TestOperator(t *testing.T) {
	run := func() (trace string, reconciled []string) {
		c := operated(t, boxes(fake.ReadCache, &reconciled))
		rest(t, c)
		create(t, c, newBox("a", "x"), newBox("b", "y"), newBox("ignored", "z"))
		rest(t, c)
		if got := secretsOf(t, c); got != 2 {
			t.Errorf("%d secrets", got)
		}
		create(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "y"}})
		rest(t, c)
		if err := user(t, c).DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace("default"),
			client.MatchingLabels{"box": "a"}); err != nil {
			t.Fatal(err)
		}
		rest(t, c)
		if got := secretsOf(t, c); got != 2 {
			t.Errorf("%d secrets after one was deleted", got)
		}
		return fmt.Sprint(c.Trace().Records()), reconciled
	}
	first, reconciled := run()
	// Created, created, own secrets seen, the map, the deletion, the new secret seen.
	if want := []string{"a", "b", "a", "b", "b", "a", "a"}; !slices.Equal(reconciled, want) {
		t.Errorf("reconciled %q, want %q", reconciled, want)
	}
	if second, _ := run(); first != second {
		t.Errorf("two traces:\n%s\n%s", first, second)
	}
}

// A crash ends the reconciler at its request, whose panics its controller recovers otherwise, and
// the new process has a new manager.
func TestCrash(t *testing.T) {
	managers, returned := 0, 0
	c := operated(t, ctrlruntime.Component(ctrlruntime.Config{
		Name: "operator", Scheme: scheme, Install: installBoxes,
		Setup: func(mgr manager.Manager) error {
			managers++
			r := &boxReconciler{Client: mgr.GetClient()}
			return builder.ControllerManagedBy(mgr).For(&Box{}).Complete(reconcile.Func(
				func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
					out, err := r.Reconcile(ctx, request)
					returned++
					return out, err
				}))
		},
	}))
	rest(t, c)
	create(t, c, newBox("a", ""))
	host := c.Host().(*sim.Stepped)
	for _, task := range []string{"operator/cache boxes", "operator/box", "operator/cache secrets", "operator/box"} {
		if err := host.StepTask(task); err != nil {
			t.Fatalf("%v; can run: %q", err, host.Enabled())
		}
	}
	if got := strings.Join(host.Enabled(), "; "); !strings.Contains(got, "api create secrets/default/a-") {
		t.Fatalf("can run: %q", got)
	}
	if err := c.Crash("operator"); err != nil {
		t.Fatal(err)
	}
	if returned != 0 {
		t.Error("the reconciler of the crashed process returned")
	}
	rest(t, c)
	if secretsOf(t, c) != 1 || managers != 2 || returned == 0 {
		t.Errorf("%d secrets, %d managers, %d returned", secretsOf(t, c), managers, returned)
	}
}

// TestCrashOfALiveOperator: an operator of a live world can be stopped, started and killed at any time.
func TestCrashOfALiveOperator(t *testing.T) {
	t.Parallel()
	c, err := cluster.New(cluster.Config{
		Components: []string{}, Extra: []cluster.Component{boxes(fake.ReadYourWrites, nil)}, API: fake.Config{SkipBootstrap: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := errors.Join(c.Start(t.Context()), c.Stop("operator")); err != nil {
		t.Fatal(err)
	}
	create(t, c, newBox("a", ""))
	if got := secretsOf(t, c); got != 0 {
		t.Errorf("%d secrets of an operator that is stopped", got)
	}
	if err := c.Resume("operator"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		create(t, c, newBox(fmt.Sprintf("box-%d", i), ""))
		if err := c.Crash("operator"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Wait(t.Context(), "the secrets", func() bool { return len(c.Server().List("secrets")) == 21 }); err != nil {
		t.Fatal(err)
	}
}

// Results and errors of reconcilers, and panics, requeue as controller-runtime's do.
func TestResults(t *testing.T) {
	for _, c := range []struct {
		name  string
		first func() (reconcile.Result, error)
		calls int
	}{
		{"done", func() (reconcile.Result, error) { return reconcile.Result{}, nil }, 1},
		{"error", func() (reconcile.Result, error) { return reconcile.Result{}, errors.New("x") }, 2},
		{"terminal", func() (reconcile.Result, error) { return reconcile.Result{}, reconcile.TerminalError(errors.New("x")) }, 1},
		{"after", func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: 1}, nil }, 2},
		{"requeue", func() (reconcile.Result, error) { return reconcile.Result{Requeue: true}, nil }, 2},
		{"panic", func() (reconcile.Result, error) { panic("x") }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			world := operated(t, ctrlruntime.Component(ctrlruntime.Config{
				Name: "operator", Setup: func(mgr manager.Manager) error {
					return builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
						func(context.Context, reconcile.Request) (reconcile.Result, error) {
							if calls++; calls == 1 {
								return c.first()
							}
							return reconcile.Result{}, nil
						}))
				},
			}))
			rest(t, world)
			create(t, world, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
			rest(t, world)
			if calls != c.calls {
				t.Errorf("%d calls, want %d", calls, c.calls)
			}
		})
	}
}

// Typed, unstructured and metadata objects are watched and read.
func TestKindsOfObjects(t *testing.T) {
	boxKind := version.WithKind("Box")
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(boxKind)
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(boxKind)
	for name, obj := range map[string]client.Object{"typed": &Box{}, "metadata": metadata, "unstructured": untyped} {
		t.Run(name, func(t *testing.T) {
			var errs []error
			world := operated(t, ctrlruntime.Component(ctrlruntime.Config{
				Name: "operator", Scheme: scheme, Install: installBoxes, Setup: func(mgr manager.Manager) error {
					return builder.ControllerManagedBy(mgr).Named("x").Watches(obj, &handler.EnqueueRequestForObject{},
						builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
							return fmt.Sprintf("%T", o) == fmt.Sprintf("%T", obj)
						}))).Complete(reconcile.Func(
						func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
							into := obj.DeepCopyObject().(client.Object)
							err := mgr.GetClient().Get(ctx, r.NamespacedName, into)
							if err == nil && into.GetName() != "a" {
								err = fmt.Errorf("name %q", into.GetName())
							}
							errs = append(errs, err)
							return reconcile.Result{}, nil
						}))
				},
			}))
			rest(t, world)
			create(t, world, newBox("a", ""))
			rest(t, world)
			if err := errors.Join(errs...); err != nil || len(errs) != 1 {
				t.Errorf("reconciled %d times: %v", len(errs), err)
			}
		})
	}
}

// What a stepped world cannot run is refused, with what to do, and leaves no goroutines.
func TestRefused(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, c := range []struct {
		want  string
		setup func(mgr manager.Manager) error
	}{
		{"use a reconciler", func(mgr manager.Manager) error {
			return mgr.Add(manager.RunnableFunc(func(context.Context) error { return nil }))
		}},
		{"no controllers", func(manager.Manager) error { return nil }},
		{"no matches for kind", func(mgr manager.Manager) error {
			return (&boxReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr)
		}},
	} {
		_, err := cluster.New(cluster.Config{
			Components: []string{}, Stepped: &sim.SteppedConfig{}, Extra: []cluster.Component{
				ctrlruntime.Component(ctrlruntime.Config{Name: "operator", Scheme: scheme, Setup: c.setup}),
			},
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	noGoroutinesSince(t, before)
}
