package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// ensureOne is a reconciler that creates a Secret, unless it finds one.
func ensureOne(ctx context.Context, p cluster.ComponentContext, _ string) (time.Duration, error) {
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		return 0, err
	}
	secrets := client.CoreV1().Secrets("default")
	all, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "of=it"})
	if err != nil || len(all.Items) > 0 {
		return 0, err
	}
	_, err = secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "it-", Labels: map[string]string{"of": "it"}},
	}, metav1.CreateOptions{})
	return 0, err
}

// While the cache lacks the Secret that the reconciler has created, a reconciler that reads the
// cache creates another one. One that reads its own writes waits for the cache.
func TestReadsOfAReconciler(t *testing.T) {
	const task, secrets = "operator/configmaps", "operator/cache secrets"
	const lateCache = secrets
	for _, c := range []struct {
		reads fake.Reads
		first []string // steps up to the creation
		again string   // what can run after a further change
	}{
		{
			fake.ReadCache,
			[]string{task, secrets, task, task},
			lateCache + "; " + task + ": api create secrets/default/it-*",
		},
		{fake.ReadYourWrites, []string{task, secrets, task, task}, lateCache},
		{fake.ReadLive, []string{task, task, task}, task + ": api list secrets/default"},
	} {
		t.Run("reads "+string(c.reads), func(t *testing.T) {
			world := operated(t, calling(cluster.ReconcilerConfig{Reads: c.reads}, ensureOne))
			host := world.Host().(*sim.Stepped)
			step := func(tasks ...string) {
				t.Helper()
				for _, task := range tasks {
					if err := host.StepTask(task); err != nil {
						t.Fatalf("%v; can run: %q", err, host.Enabled())
					}
				}
			}
			rest(t, world)
			createMap(t, world, newMap("a"))
			step("operator/cache configmaps")
			step(c.first...)
			if got := len(secretsOf(t, world)); got != 1 {
				t.Fatalf("%d secrets", got)
			}
			createMap(t, world, newMap("b"))
			step("operator/cache configmaps", task)
			if got := strings.Join(host.Enabled(), "; "); got != c.again {
				t.Errorf("can run: %q, want %q", got, c.again)
			}
			rest(t, world)
			if got, want := len(secretsOf(t, world)), map[bool]int{true: 2, false: 1}[c.reads == fake.ReadCache]; got != want {
				t.Errorf("%d secrets, want %d", got, want)
			}
		})
	}
}

func secretsOf(t *testing.T, c *cluster.Cluster) []corev1.Secret {
	t.Helper()
	return testcheck.Must(c.Client().CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})).Items
}

// All clients read the caches: typed, dynamic, and of custom resources.
func TestCachedReads(t *testing.T) {
	things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	read := func(ctx context.Context, p cluster.ComponentContext, name string) (time.Duration, error) {
		client, err := dynamic.NewForConfig(p.RESTConfig())
		if err != nil {
			return 0, err
		}
		_, err = client.Resource(things).Namespace("default").Get(ctx, "x", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || err.Error() != `things.example.com "x" not found` {
			return 0, fmt.Errorf("get of a missing thing: %w", err)
		}
		all, err := client.Resource(things).List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
		if err != nil || len(all.Items) != 1 || all.Items[0].GetName() != "one" || all.Items[0].Object["size"] != int64(3) {
			return 0, fmt.Errorf("things: %v, %w", all, err)
		}
		all.Items[0].Object["size"] = int64(4) // it is the reader's own
		one, err := client.Resource(things).Namespace("default").Get(ctx, "one", metav1.GetOptions{})
		if err != nil || one.Object["size"] != int64(3) || one.GetKind() != "Thing" {
			return 0, fmt.Errorf("thing: %v, %w", one, err)
		}
		maps, err := p.Client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
		if err != nil || len(maps.Items) != 1 || maps.ResourceVersion == "" {
			return 0, fmt.Errorf("maps: %v, %w", maps, err)
		}
		maps.Items[0].Name = "changed"
		_, err = p.Client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Continue: "x"})
		if !apierrors.IsBadRequest(err) {
			return 0, fmt.Errorf("continue: %w", err)
		}
		_, err = p.Client.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{})
		return 0, err
	}
	var errs []error
	count := 0
	world := operated(t, calling(cluster.ReconcilerConfig{
		Install: func(s *fake.Server) error {
			s.Install(fake.CustomKind{
				Group: "example.com", Versions: []string{"v1"}, Kind: "Thing", Resource: "things", Namespaced: true,
			})
			return nil
		},
	}, func(ctx context.Context, p cluster.ComponentContext, name string) (time.Duration, error) {
		count++
		_, err := read(ctx, p, name)
		errs = append(errs, err)
		return 0, nil
	}))
	rest(t, world)
	thing := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "size": int64(3),
		"metadata": map[string]any{"name": "one", "labels": map[string]any{"a": "b"}},
	}}
	client := testcheck.Must(dynamic.NewForConfig(world.RESTConfig()))
	testcheck.Must(client.Resource(things).Namespace("default").Create(t.Context(), thing, metav1.CreateOptions{}))
	createMap(t, world, newMap("a"))
	rest(t, world)
	testcheck.NoError(t, errors.Join(errs...))
	if count != 1 {
		t.Errorf("the reconciler ran %d times", count)
	}
	for _, r := range world.Trace().Records() {
		if r.Kind == trace.KindAPI && strings.HasPrefix(r.Task, "operator/") {
			t.Errorf("request: %v", r)
		}
	}
}
