package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

const kubelet1 = "kubelet(node-1)"

// once injects one event at the n-th call of the kubelet: a crash before the call, or a failure of
// the call. Otherwise it follows the default order.
type once struct {
	n     int // counted down to 0
	crash bool
	fault sim.Fault
	done  bool   // it was injected
	at    string // the call at which it was or would have been injected
}

func (o *once) Decide(d *sim.Decision) sim.Move {
	call, pending := d.Task(0).Pending()
	if o.done || !pending || d.Task(0).Process() != kubelet1 || call.Kind == trace.KindWait {
		return sim.Move{}
	}
	if o.n--; o.n >= 0 {
		return sim.Move{}
	}
	o.done, o.at = true, call.Verb+" "+call.Object
	if o.crash {
		return sim.Move{Event: "crash " + kubelet1}
	}
	if !o.fault.Applies(call) {
		return sim.Move{}
	}
	return sim.Move{Fault: o.fault}
}

// eachCall runs a function with each event at each call of the kubelet, as long as there are calls.
func eachCall(t *testing.T, run func(t *testing.T, o *once)) {
	t.Helper()
	wrong := []once{
		{crash: true},
		{fault: sim.Fault{Kind: sim.FaultConflict}},
		{fault: sim.Fault{Kind: sim.FaultRefused}},
		{fault: sim.Fault{Kind: sim.FaultLost}},
		{fault: sim.Fault{Kind: sim.FaultHang}},
		{fault: sim.Fault{Kind: sim.FaultDriver, Code: codes.Unavailable}},
		{fault: sim.Fault{Kind: sim.FaultDriverLost, Code: codes.Internal}},
	}
	for _, o := range wrong {
		for n := 0; ; n++ {
			o := o
			o.n = n
			run(t, &o)
			if t.Failed() {
				t.Fatalf("at call %d, %q: %+v", n, o.at, o)
			}
			if !o.done {
				if n < 4 {
					t.Fatalf("the kubelet makes %d calls", n)
				}
				break
			}
		}
	}
}

// node is a world of one kubelet with an unregistered node.
func node(t *testing.T) (*cluster.Cluster, *sim.Stepped) {
	t.Helper()
	c, err := cluster.New(cluster.Config{
		Nodes: 1, Components: []string{"kubelet"},
		Stepped: &sim.SteppedConfig{StepsMax: 5_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, c.Host().(*sim.Stepped)
}

// drivers returns the drivers of a node's CSINode, and those of its annotation.
func drivers(c *cluster.Cluster) (entries, annotated string) {
	if own, there := c.Server().Get("csinodes", "", "node-1"); there {
		for _, d := range own.(*storagev1.CSINode).Spec.Drivers {
			entries += d.Name + "=" + d.NodeID
		}
	}
	if node, there := c.Server().Get("nodes", "", "node-1"); there {
		annotated = node.GetAnnotations()["csi.volume.kubernetes.io/nodeid"]
	}
	return entries, annotated
}

// wantDriver checks whether the driver is registered, and that it was notified.
func wantDriver(t *testing.T, c *cluster.Cluster, registered bool) {
	t.Helper()
	wantEntries, wantAnnotated := "", ""
	if registered {
		wantEntries, wantAnnotated = "array.csi.volsim.dev=node-1", `{"array.csi.volsim.dev":"node-1"}`
	}
	if entries, annotated := drivers(c); entries != wantEntries || annotated != wantAnnotated {
		t.Errorf("CSINode: %q, annotation: %q\n%s", entries, annotated, tail(c.Trace().Text(), 60))
	}
	last := slices.IndexFunc(backwards(c.Trace().Records()), func(r trace.Record) bool {
		return r.Kind == trace.KindWork && (r.Verb == "register" || r.Verb == "deregister") && r.Err == nil
	})
	if r := backwards(c.Trace().Records()); last < 0 || (r[last].Verb == "register") != registered {
		t.Errorf("the last notification of the driver does not match its registration\n%s", tail(c.Trace().Text(), 60))
	}
}

func backwards(records []trace.Record) []trace.Record {
	records = slices.Clone(records)
	slices.Reverse(records)
	return records
}

func settle(t *testing.T, host *sim.Stepped) {
	t.Helper()
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestRegistrationSurvivesFaults kills the kubelet at each call of the node's and the
// driver's registration, and has each of them fail.
func TestRegistrationSurvivesFaults(t *testing.T) {
	calls := map[string]bool{}
	eachCall(t, func(t *testing.T, o *once) {
		c, host := node(t)
		host.SetStrategy(o)
		settle(t, host)
		calls[o.at] = true
		wantDriver(t, c, true)
	})
	for _, call := range []string{
		"create csinodes/node-1", "GetInfo array.csi.volsim.dev-reg.sock",
		"NodeGetInfo array.csi.volsim.dev", "patch nodes/node-1",
		"update csinodes/node-1", "NotifyRegistrationStatus array.csi.volsim.dev-reg.sock",
	} {
		if !calls[call] {
			t.Errorf("no event at %q; calls: %v", call, calls)
		}
	}
}

// TestDeregistrationSurvivesFaults does so while the driver's sockets go, and come
// again.
func TestDeregistrationSurvivesFaults(t *testing.T) {
	for _, again := range []bool{false, true} {
		eachCall(t, func(t *testing.T, o *once) {
			c, host := node(t)
			settle(t, host)
			host.SetStrategy(o)
			testcheck.NoError(t, c.StopDriver("node-1"))
			if again {
				host.Step()
				testcheck.NoError(t, c.StartDriver("node-1"))
			}
			settle(t, host)
			if !o.crash && !again {
				wantDriver(t, c, false)
			}
			testcheck.NoError(t, c.StartDriver("node-1")) // a restarted kubelet does not know its unfinished work
			settle(t, host)
			wantDriver(t, c, true)
		})
	}
}

// TestDriverStopsWhileItMounts stops the driver just before each call of mounting and unmounting a
// volume. No operation fails permanently, and all continue when the driver is restarted.
func TestDriverStopsWhileItMounts(t *testing.T) {
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		t.Run(rpc, func(t *testing.T) {
			c, err := cluster.New(cluster.Config{
				Nodes: 1, PreRegistered: true,
				Stepped: &sim.SteppedConfig{StepsMax: 20_000},
			})
			testcheck.NoError(t, err)
			defer c.Close()
			host := c.Host().(*sim.Stepped)
			settle(t, host)
			wait := func(what string, cond func() bool) {
				t.Helper()
				if err := host.Wait(t.Context(), what, cond); err != nil {
					t.Fatalf("%v\n%s", err, tail(c.Trace().Text(), 60))
				}
			}
			c.User("user", func(ctx context.Context) error { return comeAndGo(ctx, c) })
			wait(rpc, func() bool {
				return slices.ContainsFunc(host.Enabled(),
					func(s string) bool { return strings.Contains(s, ": driver "+rpc+" ") })
			})
			testcheck.NoError(t, c.StopDriver("node-1"))
			failed := 0
			wait("the call to fail, and to be found impossible thereafter", func() bool {
				failed = 0
				for _, r := range c.Trace().Records() {
					if r.Verb == rpc && r.Failed() {
						failed++
					}
				}
				entries, _ := drivers(c)
				return failed > 0 && entries == ""
			})
			before := len(c.Trace().Records())
			for range 200 {
				host.Step()
			}
			for _, r := range c.Trace().Records()[before:] {
				if r.Kind == trace.KindDriver && strings.HasPrefix(r.Task, kubelet1) {
					t.Errorf("called while it was stopped: %s %s", r.Verb, r.Object)
				}
			}
			testcheck.NoError(t, c.StartDriver("node-1"))
			testcheck.NoError(t, c.Run(t.Context()))
			wantDriver(t, c, true)
			if pending := c.Pending(); len(pending) > 0 {
				t.Errorf("pending: %v", pending)
			}
			if left, err := c.Leaks(); err != nil || len(left) > 0 {
				t.Errorf("leaks: %v, %v", left, err)
			}
		})
	}
}

// comeAndGo runs a pod with a volume and deletes it.
func comeAndGo(ctx context.Context, c *cluster.Cluster) error {
	claims, pods := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().Pods("default")
	if _, err := claims.Create(ctx, cluster.NewClaim("data", "1Gi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := pods.Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		return err
	}
	if err := pods.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := c.WaitForGone(ctx, "pods", "default", "web"); err != nil {
		return err
	}
	return claims.Delete(ctx, "data", metav1.DeleteOptions{})
}

// TestLifecycleWithADriverThatStopsAndStarts stops and starts the driver on both nodes during the
// whole run.
func TestLifecycleWithADriverThatStopsAndStarts(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 10
	}
	transient := 0
	for seed := range uint64(seeds) {
		c, err := cluster.New(stepped(sim.NewSeeded(seed)))
		testcheck.NoError(t, err)
		c.User("user", func(ctx context.Context) error { return lifecycle(ctx, c) })
		c.User("admin", func(ctx context.Context) error {
			for i := range 30 {
				node := []string{"node-1", "node-2"}[i%2]
				if err := c.StopDriver(node); err != nil {
					return err
				}
				for range 3 {
					if _, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil {
						return err
					}
				}
				if err := c.StartDriver(node); err != nil {
					return err
				}
			}
			return nil
		})
		err = c.Run(t.Context())
		pending := c.Pending()
		left, errLeft := c.Leaks()
		transient += strings.Count(c.Trace().Text(), "not found in the list of registered CSI drivers")
		if err != nil || errLeft != nil || len(pending)+len(left) > 0 {
			t.Fatalf("seed %d: %v, %v, pending %v, leaks %v\n%s", seed, err, errLeft, pending,
				left, tail(c.Trace().Text(), 100))
		}
		testcheck.NoError(t, c.Close())
	}
	if transient == 0 {
		t.Error("no operation ran while the driver was stopped")
	}
}
