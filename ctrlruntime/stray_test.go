package ctrlruntime_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// strays are reconcilers that start goroutines.
var strays = map[string]func(ctx context.Context, c client.Client) error{
	"create": func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
	},
	"cached read": func(ctx context.Context, c client.Client) error { return c.List(ctx, &BoxList{}) },
}

// A strayReconciler starts a goroutine and waits for it.
type strayReconciler struct {
	client.Client
	call func(ctx context.Context, c client.Client) error
}

// Reconcile implements reconcile.Reconciler.
func (r *strayReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	done := make(chan error)
	go func() { done <- r.call(ctx, r) }()
	return reconcile.Result{}, <-done
}

func straying(call func(ctx context.Context, c client.Client) error) cluster.Component {
	return reconciling(fake.ReadCache, func(mgr manager.Manager) reconcile.Func {
		return (&strayReconciler{mgr.GetClient(), call}).Reconcile
	})
}

// A request or a read of a goroutine that a reconciler started ends the run with an error that says
// where it was started: the run of a cluster, a search, the set-up of a scenario.
func TestStrayGoroutines(t *testing.T) {
	for name, call := range strays {
		t.Run(name, func(t *testing.T) {
			check := func(t *testing.T, err error) {
				t.Helper()
				for _, want := range []string{
					"a goroutine that component operator started in ctrlruntime_test.(*strayReconciler).Reconcile (stray_test.go:",
					"make the call in the reconciler itself, or run this code with simtest.Bubble",
				} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("error %v\nwant %q", err, want)
					}
				}
			}
			t.Run("cluster", func(t *testing.T) {
				c := operated(t, straying(call))
				create(t, c, newBox("a", ""))
				check(t, c.Run(t.Context()))
			})
			s := &scenario.Scenario{
				Name: "stray", Components: []string{}, Extra: []cluster.Component{straying(call)},
				Users: []scenario.User{{Name: "user", Script: func(ctx context.Context, c *cluster.Cluster) error {
					boxes, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme})
					if err != nil {
						return err
					}
					box := newBox("a", "")
					box.Namespace = "default"
					return boxes.Create(ctx, box)
				}}},
			}
			t.Run("search", func(t *testing.T) {
				_, err := explore.Search(t.Context(), s, explore.Config{})
				check(t, err)
			})
			t.Run("set-up", func(t *testing.T) {
				s := *s
				s.Extra = append(s.Extra, cluster.Component{Name: "first", Start: func(p cluster.ComponentContext) error {
					p.Process.Spawn("creates", func(ctx context.Context) {
						c, err := client.New(p.RESTConfig(), client.Options{Scheme: scheme})
						box := newBox("a", "")
						box.Namespace = "default"
						if err == nil {
							err = c.Create(ctx, box)
						}
						if err != nil {
							t.Error(err)
						}
					})
					return nil
				}})
				_, err := s.Run(t.Context(), scenario.Options{})
				check(t, err)
			})
		})
	}
}

// A goroutine that outlives its reconcile ends the run, although it makes no requests.
func TestOutlivingGoroutine(t *testing.T) {
	stop := make(chan bool)
	defer close(stop)
	c := operated(t, reconciling(fake.ReadCache, func(manager.Manager) reconcile.Func {
		return func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() { <-stop }()
			return reconcile.Result{}, ctx.Err()
		}
	}))
	create(t, c, newBox("a", ""))
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "that outlives the task operator/box") {
		t.Errorf("error %v", err)
	}
}

// A manager that is started in a stepped world is refused, whether the world runs or not.
func TestManagerInSteppedWorld(t *testing.T) {
	c, err := cluster.New(cluster.Config{Components: []string{}, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	requested := make(chan bool, 1)
	config := c.RESTConfig()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return signaling{inner, requested} })
	again := true // its name is known to the process if the test runs twice
	mgr, err := manager.New(config, manager.Options{
		Metrics: server.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(nothing); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	<-requested
	err = c.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "a controller-runtime manager was started in a stepped world: use ctrlruntime.Component") {
		t.Errorf("error %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Logf("manager: %v", err)
	}
}

// signaling signals that a watch or a list of objects was answered.
type signaling struct {
	http.RoundTripper
	answered chan<- bool
}

// RoundTrip implements http.RoundTripper.
func (s signaling) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if strings.HasSuffix(r.URL.Path, "/configmaps") {
		select {
		case s.answered <- true:
		default:
		}
	}
	return resp, err
}
