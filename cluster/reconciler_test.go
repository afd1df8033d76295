package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// operated returns a stepped world with only an operator.
func operated(t testing.TB, parts ...cluster.Component) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(cluster.Config{
		Components: []string{}, Stepped: &sim.SteppedConfig{}, Extra: parts, API: fake.Config{SkipBootstrap: true},
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

// calling returns a reconciler of ConfigMaps that calls a function for each.
func calling(cfg cluster.ReconcilerConfig,
	f func(ctx context.Context, p cluster.ComponentContext, name string) (time.Duration, error),
) cluster.Component {
	cfg.Name = "operator"
	if cfg.For == "" {
		cfg.For = "configmaps"
	}
	cfg.Build = func(p cluster.ComponentContext) (cluster.Reconcile, error) {
		return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
			return f(ctx, p, key.Name)
		}, nil
	}
	return cluster.Reconciler(cfg)
}

func newMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
}

func createMap(t *testing.T, c *cluster.Cluster, m *corev1.ConfigMap) {
	t.Helper()
	if _, err := c.Client().CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// labelByREST labels a ConfigMap by a client from the process's configuration, with deadlines.
func labelByREST(ctx context.Context, p cluster.ComponentContext, name string) (time.Duration, error) {
	config := p.RESTConfig()
	config.Timeout = time.Hour
	client, err := typedcore.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	return 0, label(ctx, client.ConfigMaps("default"), name)
}

// A reconciler with a client from the configuration is suspended at each request, even with
// deadlines. A concurrent change makes it fail, and it is retried.
func TestAReconcilerIsSuspendedAtEachRequest(t *testing.T) {
	c := operated(t, calling(cluster.ReconcilerConfig{Reads: fake.ReadLive}, labelByREST))
	host := c.Host().(*sim.Stepped)
	rest(t, c)
	createMap(t, c, newMap("a"))
	for _, step := range []struct{ move, next string }{
		{"operator/cache configmaps", "operator/configmaps"},
		{"operator/configmaps", "operator/configmaps: api get configmaps/default/a"},
		{"operator/configmaps", "operator/configmaps: api update configmaps/default/a"},
	} {
		if err := host.StepTask(step.move); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(host.Enabled(), "; "); got != step.next {
			t.Fatalf("tasks after %s: %q, want %q", step.move, got, step.next)
		}
	}
	patch := []byte(`{"data":{"from":"a user"}}`)
	if _, err := c.Client().CoreV1().ConfigMaps("default").Patch(t.Context(), "a", types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	rest(t, c)
	obj, _ := c.Server().Get("configmaps", "default", "a")
	if m := obj.(*corev1.ConfigMap); m.Labels["seen"] != "yes" || m.Data["from"] != "a user" {
		t.Errorf("labels %v, data %v", m.Labels, m.Data)
	}
	var failed []string
	for _, r := range c.Trace().Records() {
		if r.Kind == trace.KindWork && r.Failed() {
			failed = append(failed, r.Task+" "+r.Action.String())
		}
	}
	if diff := cmp.Diff([]string{"operator/configmaps work fail default/a"}, failed); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
}

// After an error a key is requeued with back-off, which success resets; otherwise at the requested
// time.
func TestAReconcilerIsRequeued(t *testing.T) {
	var at []time.Duration
	broken := errors.New("broken")
	answers := []struct {
		after time.Duration
		err   error
	}{{0, broken}, {time.Hour, broken}, {time.Minute, nil}, {0, broken}, {0, nil}}
	c := operated(t, calling(cluster.ReconcilerConfig{}, func(_ context.Context, p cluster.ComponentContext, _ string) (time.Duration, error) {
		at = append(at, p.Process.Now().Sub(sim.Epoch))
		answer := answers[0]
		answers = answers[1:]
		return answer.after, answer.err
	}))
	rest(t, c)
	createMap(t, c, newMap("a"))
	rest(t, c)
	first := 5 * time.Millisecond // the queue's first back-off
	third := 3*first + time.Minute
	if diff := cmp.Diff([]time.Duration{0, first, 3 * first, third, third + first}, at); diff != "" {
		t.Errorf("called at (-want +got):\n%s", diff)
	}
}

// Several workers process different keys concurrently, but never one key; changes meanwhile cause
// one more sync.
func TestAReconcilerProcessesAKeyOnce(t *testing.T) {
	working, most, calls := map[string]int{}, 0, 0
	slowly := func(_ context.Context, p cluster.ComponentContext, name string) (time.Duration, error) {
		calls++
		working[name]++
		if working[name] > 1 {
			t.Errorf("%s is processed twice concurrently", name)
		}
		most = max(most, len(working))
		p.Process.Sleep(time.Second)
		delete(working, name)
		return 0, nil
	}
	c := operated(t, calling(cluster.ReconcilerConfig{Workers: 2}, slowly))
	rest(t, c)
	for i := range 3 {
		createMap(t, c, newMap(fmt.Sprint("m", i)))
	}
	c.User("user", func(ctx context.Context) error {
		if err := c.Wait(ctx, "work on m0", func() bool { return working["m0"] == 1 }); err != nil {
			return err
		}
		for range 3 {
			patch := []byte(fmt.Sprintf(`{"data":{"n":%q}}`, c.Host().Now().String()+fmt.Sprint(c.Server().Revision())))
			if _, err := c.Client().CoreV1().ConfigMaps("default").Patch(ctx, "m0", types.MergePatchType, patch,
				metav1.PatchOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	rest(t, c)
	if most != 2 || calls != 4 {
		t.Errorf("%d concurrent, %d calls; want 2 and 4", most, calls)
	}
}

// A reconciler that always requests to be requeued keeps a world running, unless it declares that
// it polls.
func TestAReconcilerThatPollsLetsAWorldRest(t *testing.T) {
	calls := 0
	c := operated(t, calling(cluster.ReconcilerConfig{Polls: true}, func(context.Context, cluster.ComponentContext, string) (time.Duration, error) {
		calls++
		return time.Minute, nil
	}))
	rest(t, c)
	createMap(t, c, newMap("a"))
	rest(t, c)
	if calls != 2 {
		t.Errorf("%d calls, want one for the object, and one for possible changes since", calls)
	}
}

// Owned objects, and objects mapped by a function, enqueue other keys, also when they are deleted.
func TestAReconcilerWatchesOwnedObjects(t *testing.T) {
	var keys []string
	part := calling(cluster.ReconcilerConfig{
		Watches: []cluster.Watch{{Resource: "secrets"}, {Resource: "serviceaccounts", Keys: func(obj fake.Object) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: obj.GetLabels()["of"]}}
		}}},
	}, func(_ context.Context, _ cluster.ComponentContext, name string) (time.Duration, error) {
		keys = append(keys, name)
		return 0, nil
	})
	c := operated(t, part)
	rest(t, c)
	core := c.Client().CoreV1()
	mine := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "mine", UID: "1", Controller: new(true)}
	others := metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: "ConfigMap", Name: "others",
		UID: "2", Controller: new(true),
	}
	loose := mine
	loose.Name, loose.Controller = "loose", nil
	for i, owner := range []metav1.OwnerReference{mine, others, loose} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprint("s", i),
			OwnerReferences: []metav1.OwnerReference{owner},
		}}
		if _, err := core.Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rest(t, c)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name:   "x",
		Labels: map[string]string{"of": "before"},
	}}
	account, err := core.ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rest(t, c)
	account.Labels["of"] = "after"
	if _, err := core.ServiceAccounts("default").Update(t.Context(), account, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	rest(t, c)
	if err := core.ServiceAccounts("default").Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rest(t, c)
	if diff := cmp.Diff([]string{"mine", "before", "before", "after", "after"}, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

var things = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}

// A reconciler installs its custom resource, reads its objects from a cache that lags, and writes
// them by its own client. It is restarted after a crash, and replicated.
func TestAReconcilerOfACustomResource(t *testing.T) {
	built := 0
	part := cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "operator", For: "things.example.com",
		Install: func(server *fake.Server) error {
			server.Install(fake.CustomKind{
				Group: "example.com", Versions: []string{"v1"}, Resource: "things", Kind: "Thing", Namespaced: true,
			})
			return nil
		},
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			built++
			client, err := dynamic.NewForConfig(p.RESTConfig())
			if err != nil {
				return nil, err
			}
			cache, err := p.Informer("things.example.com")
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				obj, found, err := cache.GetStore().GetByKey(key.String())
				if err != nil || !found {
					return 0, err
				}
				thing := obj.(*unstructured.Unstructured).DeepCopy()
				thing.SetLabels(map[string]string{"seen": "yes"})
				_, err = client.Resource(things).Namespace(key.Namespace).Update(ctx, thing, metav1.UpdateOptions{})
				return 0, err
			}, nil
		},
	})
	c := operated(t, part)
	rest(t, c)
	for _, inject := range []func(string) error{c.Crash, c.Replicate} {
		if err := inject("operator"); err != nil {
			t.Fatal(err)
		}
	}
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	thing := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"},
	}}
	if _, err := client.Resource(things).Namespace("default").Create(t.Context(), thing,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rest(t, c)
	obj, _ := c.Server().Get("things.example.com", "default", "a")
	if built != 3 || obj.GetLabels()["seen"] != "yes" {
		t.Errorf("built %d times, labels %v", built, obj.GetLabels())
	}
}

// A panic of a reconciler reaches the caller that runs the world.
func TestPanicOfAReconcilerPropagates(t *testing.T) {
	c := operated(t, calling(cluster.ReconcilerConfig{}, func(context.Context, cluster.ComponentContext, string) (time.Duration, error) {
		panic("the operator's fault")
	}))
	rest(t, c)
	createMap(t, c, newMap("a"))
	defer func() {
		if r := recover(); !strings.Contains(fmt.Sprint(r), "the operator's fault") {
			t.Errorf("recovered %v", r)
		}
	}()
	rest(t, c)
	t.Error("the world reached quiescence")
}

// The same reconciler runs live.
func TestAReconcilerRunsLive(t *testing.T) {
	c, err := cluster.New(cluster.Config{
		Components: []string{},
		Extra:      []cluster.Component{calling(cluster.ReconcilerConfig{}, labelByREST)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	createMap(t, c, newMap("a"))
	err = c.Wait(t.Context(), "the label", func() bool {
		obj, _ := c.Server().Get("configmaps", "default", "a")
		return obj.GetLabels()["seen"] == "yes"
	})
	if err != nil {
		t.Error(err)
	}
}

// TestInvalidReconcilers checks that missing functions and resources are errors of New.
func TestInvalidReconcilers(t *testing.T) {
	for _, cfg := range []cluster.ReconcilerConfig{
		{For: "nothings"},
		{Watches: []cluster.Watch{{Resource: "nothings"}}},
		{Install: func(*fake.Server) error { return errors.New("cannot install nothings") }},
	} {
		c, err := cluster.New(cluster.Config{
			Components: []string{}, Stepped: &sim.SteppedConfig{},
			Extra: []cluster.Component{calling(cfg,
				func(context.Context, cluster.ComponentContext, string) (time.Duration, error) { return 0, nil })},
		})
		if c != nil || err == nil || !strings.Contains(err.Error(), "nothings") {
			t.Errorf("%+v gives error %v", cfg, err)
		}
	}
}

// BenchmarkReconcilerStep measures a step of a world with one reconciler that reads and writes, by
// the client it received and by one created from its configuration.
func BenchmarkReconcilerStep(b *testing.B) {
	byClient := func(ctx context.Context, p cluster.ComponentContext, name string) (time.Duration, error) {
		return 0, label(ctx, p.Client.CoreV1().ConfigMaps("default"), name)
	}
	for _, bb := range []struct {
		name  string
		label func(context.Context, cluster.ComponentContext, string) (time.Duration, error)
	}{{"Client", byClient}, {"RESTConfig", nil}} {
		b.Run(bb.name, func(b *testing.B) {
			part := calling(cluster.ReconcilerConfig{}, bb.label)
			if bb.label == nil {
				part = labelingByREST()
			}
			c := operated(b, part)
			host, maps := c.Host().(*sim.Stepped), c.Client().CoreV1().ConfigMaps("default")
			if _, err := maps.Create(b.Context(), newMap("a"), metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
			rest(b, c)
			before, turns := host.Steps(), 0
			b.ReportAllocs()
			for b.Loop() {
				turns++
				m := newMap("a")
				m.Data = map[string]string{"turn": fmt.Sprint(turns)}
				if _, err := maps.Update(b.Context(), m, metav1.UpdateOptions{}); err != nil {
					b.Fatal(err)
				}
				rest(b, c)
			}
			steps := float64(host.Steps() - before)
			b.ReportMetric(steps/float64(turns), "steps/op")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1000/steps, "µs/step")
		})
	}
}

// labelingByREST is a reconciler that creates its client once, as programs do.
func labelingByREST() cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "operator", For: "configmaps",
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			client, err := typedcore.NewForConfig(p.RESTConfig())
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				return 0, label(ctx, client.ConfigMaps(key.Namespace), key.Name)
			}, err
		},
	})
}

// label labels a ConfigMap that has no label.
func label(ctx context.Context, maps typedcore.ConfigMapInterface, name string) error {
	m, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil || m.Labels["seen"] != "" {
		return err
	}
	metav1.SetMetaDataLabel(&m.ObjectMeta, "seen", "yes")
	_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	return err
}
