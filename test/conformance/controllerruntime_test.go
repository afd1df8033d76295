package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientrest "k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// An immediateCaller is a Caller whose calls take effect at once.
type immediateCaller struct{}

func (immediateCaller) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome {
	return effect()
}
func (immediateCaller) Now() time.Time { return sim.Epoch }

func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
	}
}

// A labeler is a reconciler that adds a label and a finalizer to each claim, and removes the
// finalizer on deletion.
type labeler struct{ client.Client }

const ours = "example.com/ours"

// Reconcile processes one claim, by a patch, an apply or an update.
func (l labeler) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	var claim corev1.PersistentVolumeClaim
	if err := l.Get(ctx, r.NamespacedName, &claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil {
		before := claim.DeepCopy()
		claim.Finalizers = nil
		return reconcile.Result{}, client.IgnoreNotFound(l.Patch(ctx, &claim, client.MergeFrom(before)))
	}
	if claim.Labels["seen"] == "" {
		before := claim.DeepCopy()
		claim.Labels = map[string]string{"seen": "yes"}
		claim.Finalizers = append(claim.Finalizers, ours)
		return reconcile.Result{}, l.Patch(ctx, &claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if claim.Status.Phase != corev1.ClaimBound {
		claim.Status.Phase = corev1.ClaimBound
		return reconcile.Result{}, l.Status().Update(ctx, &claim)
	}
	return reconcile.Result{}, nil
}

// TestControllerRuntimeRunsInMemory runs a controller-runtime manager with its cache and client on
// the in-memory config, from the creation of a claim to its removal.
func TestControllerRuntimeRunsInMemory(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	m := newManager(t, apiserver.NewConfig(s, immediateCaller{}))
	err := builder.ControllerManagedBy(m).For(&corev1.PersistentVolumeClaim{}).
		WithOptions(controller.Options{SkipNameValidation: new(true)}).
		Watches(&corev1.ConfigMap{}, &handler.EnqueueRequestForObject{}).
		Complete(labeler{m.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	bound, gone := make(chan struct{}), make(chan struct{})
	s.OnCommit(func(c fake.Commit) {
		claim, ok := c.After.(*corev1.PersistentVolumeClaim)
		if ok && c.Type == "DELETED" {
			close(gone)
		} else if ok && claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil && claim.Labels["seen"] == "yes" {
			close(bound)
		}
	})
	if err := m.GetClient().Create(ctx, newClaim("a")); err != nil {
		t.Fatal(err)
	}
	await(t, bound, "the claim to be bound")
	if err := m.GetClient().Delete(ctx, newClaim("a")); err != nil {
		t.Fatal(err)
	}
	await(t, gone, "the claim to go")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func newManager(t *testing.T, cfg *clientrest.Config) manager.Manager {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	m, err := manager.New(cfg, manager.Options{
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		LeaderElection: true, LeaderElectionID: "labeler", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func await(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("timeout waiting for %s", what)
	}
}

// TestControllerRuntimeClientIsSuspended runs controller-runtime's client in a user of a stepped
// host: each request is a step.
func TestControllerRuntimeClientIsSuspended(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	s := fake.NewServer(fake.Config{Now: host.Now})
	s.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1"}, Resource: "things", Kind: "Thing", ListKind: "ThingList", Namespaced: true,
	})
	me := host.Process("me")
	done := false
	me.User("", func(ctx context.Context) {
		c, err := client.New(apiserver.NewConfig(s, me), client.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		thing := &unstructured.Unstructured{}
		thing.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"})
		thing.SetNamespace("default")
		thing.SetName("a")
		for _, obj := range []client.Object{newClaim("a"), thing} {
			if err := c.Create(ctx, obj); err != nil {
				t.Error(err)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
				t.Error(err)
			}
			if err := c.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())}); err != nil {
				t.Error(err)
			}
		}
		done = true
	})
	before := host.Steps()
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	if steps := host.Steps() - before; !done || steps < 6 {
		t.Errorf("done %v in %d steps, want at least 6, one per request", done, steps)
	}
}
