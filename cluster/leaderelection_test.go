package cluster_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// holderOf returns the holder of a Lease, and how often it has changed hands.
func holderOf(c *cluster.Cluster, lease string) (string, int32) {
	obj, ok := c.Server().Get("leases", metav1.NamespaceSystem, lease)
	if !ok {
		return "", -1
	}
	spec := obj.(*coordinationv1.Lease).Spec
	return *spec.HolderIdentity, *spec.LeaseTransitions
}

// leaders returns the components that called the driver, in order, without repetitions.
func leaders(c *cluster.Cluster) []string {
	var names []string
	for _, r := range c.Trace().Records() {
		if r.Kind == trace.KindDriver && strings.Contains(r.Object, "pvc-") {
			name, _, _ := strings.Cut(r.Task, "/")
			names = append(names, name)
		}
	}
	return slices.Compact(names)
}

// TestReplicaTakesOver has two provisioners. The second one acts when the first has been silent until its Lease
// expired, and the first one waits when it is back.
func TestReplicaTakesOver(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := start(t, cluster.Config{
		LeaderElection: true, Snapshots: true, Devices: cluster.Array, Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 50_000},
	})
	testcheck.NoError(t, c.Replicate("provisioner"))
	bind := func(name string) {
		t.Helper()
		add(t, c, cluster.NewClaim(name, "1Gi"))
		testcheck.NoError(t, c.WaitForClaim(ctx, "default", name, corev1.ClaimBound), c.WaitForRest(ctx))
	}
	bind("one")
	for lease, want := range map[string]string{
		array.DriverName: "provisioner", "external-attacher-leader-" + strings.ReplaceAll(array.DriverName, ".", "-"): "attacher",
		"external-resizer-" + strings.ReplaceAll(array.DriverName, ".", "-"): "resizer",
	} {
		holder, changes := holderOf(c, strings.ReplaceAll(lease, ".", "-"))
		testcheck.Equal(t, "holder of "+lease, want, holder)
		testcheck.Equal(t, "changes of "+lease, 0, changes)
	}
	testcheck.NoError(t, c.Stop("provisioner"))
	began := c.Host().Now()
	bind("two")
	holder, changes := holderOf(c, "array-csi-volsim-dev")
	testcheck.Equal(t, "holder", "provisioner-2", holder)
	testcheck.Equal(t, "changes", 1, changes)
	if took := c.Host().Now().Sub(began); took < 10*time.Second || took > 25*time.Second {
		t.Errorf("the replica took over after %v, want about 15s", took)
	}
	testcheck.NoError(t, c.Resume("provisioner"))
	bind("three")
	testcheck.Equal(t, "who called the driver", []string{"provisioner", "provisioner#2"}, leaders(c))
	events := []string{}
	for _, obj := range c.Server().List("events") {
		if e := obj.(*corev1.Event); e.Reason == "LeaderElection" && strings.HasPrefix(e.Message, "provisioner") {
			events = append(events, e.Message)
		}
	}
	testcheck.Equal(t, "events", []string{"provisioner became leader", "provisioner-2 became leader"}, events)
}

// TestRestartedLeaderKeepsItsLease restarts a leader, which has its old identity and acts at once.
func TestRestartedLeaderKeepsItsLease(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := start(t, cluster.Config{LeaderElection: true, Devices: cluster.Array, Nodes: 1, ClockSpeed: 100})
	for _, name := range []string{"one", "two"} {
		add(t, c, cluster.NewClaim(name, "1Gi"))
		testcheck.NoError(t, c.WaitForClaim(ctx, "default", name, corev1.ClaimBound), c.Crash("provisioner"))
	}
	holder, changes := holderOf(c, "array-csi-volsim-dev")
	testcheck.Equal(t, "holder", "provisioner", holder)
	testcheck.Equal(t, "changes", 0, changes)
}

// TestLeaderThatCannotRenewIsRestarted refuses the renewals of a leader for a while: it is restarted, and leads again.
func TestLeaderThatCannotRenewIsRestarted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, stepped := range map[string]*sim.SteppedConfig{"stepped": {StepsMax: 50_000}, "live": nil} {
		t.Run(name, func(t *testing.T) {
			cfg := cluster.Config{LeaderElection: true, Devices: cluster.Array, Nodes: 1, ClockSpeed: 50, Stepped: stepped}
			if stepped != nil {
				cfg.ClockSpeed = 0
			}
			refused := 0
			cfg.Interceptors.Client = func(component string, client *fake.Clientset) *fake.Clientset {
				if component != "provisioner" {
					return client
				}
				return client.WithInterceptor(fake.InterceptorFunc(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
					if r.Verb == "update" && r.Resource.Resource == "leases" && refused < 5 {
						refused++
						return nil, errors.New("no connection")
					}
					return serve()
				}))
			}
			c := start(t, cfg)
			process := c.Host().Process("clock")
			c.User("clock", func(context.Context) error {
				process.Sleep(time.Minute)
				return nil
			})
			testcheck.NoError(t, c.Run(ctx))
			var led int32
			for _, obj := range c.Server().List("events") {
				if e := obj.(*corev1.Event); e.Message == "provisioner became leader" {
					led += max(e.Count, 1)
				}
			}
			holder, _ := holderOf(c, "array-csi-volsim-dev")
			testcheck.Equal(t, "holder", "provisioner", holder)
			testcheck.Equal(t, "how often it became the leader", 2, led)
		})
	}
}
