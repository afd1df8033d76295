package kubelet_test

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// newLeaseWorld returns a world at rest whose kubelet renews a Lease.
func newLeaseWorld(t *testing.T, configure ...func(*cluster.Config)) *world {
	t.Helper()
	w := newWorld(t, append(configure, func(cfg *cluster.Config) { cfg.NodeLeases = true })...)
	w.rest()
	return w
}

// lease returns the Lease of the node, or nil.
func (w *world) lease() *coordinationv1.Lease {
	obj, ok := w.Server().Get("leases", corev1.NamespaceNodeLease, "node-1")
	if !ok {
		return nil
	}
	return obj.(*coordinationv1.Lease)
}

// now returns the time since the world began.
func (w *world) now() time.Duration { return w.host.Now().Sub(sim.Epoch) }

// expectRenewed checks that the Lease was renewed every 10 s since a time, and last at most 10 s ago.
func (w *world) expectRenewed(when string, since time.Duration) {
	w.t.Helper()
	lease := w.lease()
	if lease == nil {
		w.t.Fatalf("%s: no lease", when)
	}
	want := since + (w.now() - since).Truncate(10*time.Second)
	if got := lease.Spec.RenewTime.Sub(sim.Epoch); got != want {
		w.t.Errorf("%s: renewed at %v, want %v; it is %v", when, got, want, w.now())
	}
}

func TestNodeLease(t *testing.T) {
	w := newLeaseWorld(t)
	lease := w.lease()
	if lease == nil {
		t.Fatal("no lease")
	}
	node, _ := w.Server().Get("nodes", "", "node-1")
	testcheck.Equal(t, "owner", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: node.GetUID()}}, lease.OwnerReferences)
	testcheck.Equal(t, "holder", "node-1", *lease.Spec.HolderIdentity)
	testcheck.Equal(t, "duration", 40, *lease.Spec.LeaseDurationSeconds)
	w.expectRenewed("at rest", 0)

	w.pass(25 * time.Second)
	w.expectRenewed("after 25 s", 0)
	revision := w.Server().Revision()
	w.rest()
	testcheck.Equal(t, "revision at rest", revision, w.Server().Revision())
	testcheck.Equal(t, "uid", lease.UID, w.lease().UID)
}

func TestNoNodeLease(t *testing.T) {
	w := newWorld(t)
	w.pass(time.Minute)
	if lease := w.lease(); lease != nil {
		t.Errorf("lease %v", lease)
	}
}

// TestNodeLeaseIsTakenUp restarts the kubelet, which then renews the Lease at once.
func TestNodeLeaseIsTakenUp(t *testing.T) {
	w := newLeaseWorld(t)
	uid := w.lease().UID
	w.pass(25 * time.Second)
	renewed := w.lease().Spec.RenewTime.Sub(sim.Epoch)
	testcheck.NoError(t, w.Stop("kubelet(node-1)"))
	w.pass(time.Minute)
	testcheck.Equal(t, "renewed without a kubelet", renewed, w.lease().Spec.RenewTime.Sub(sim.Epoch))
	now := w.now()
	if !w.Repair() {
		t.Error("nothing to repair")
	}
	w.rest()
	w.expectRenewed("after its start", now)
	w.pass(15 * time.Second)
	w.expectRenewed("after 15 s more", now)
	testcheck.Equal(t, "uid", uid, w.lease().UID)
	testcheck.NoError(t, w.Crash("kubelet(node-1)"))
	now = w.now()
	w.rest()
	w.expectRenewed("after a crash", now)
	testcheck.Equal(t, "uid", uid, w.lease().UID)
}

// TestNodeLeaseConflicts changes the Lease between two renewals, and deletes it.
func TestNodeLeaseConflicts(t *testing.T) {
	w := newLeaseWorld(t)
	leases := w.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err := leases.Patch(t.Context(), "node-1", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"},"ownerReferences":null}}`), metav1.PatchOptions{})
	testcheck.NoError(t, err)
	before := w.lease()
	w.pass(10 * time.Second)
	after := w.lease()
	if after.Labels["a"] != "b" || !after.Spec.RenewTime.After(before.Spec.RenewTime.Time) || len(after.OwnerReferences) != 1 {
		t.Errorf("after a conflict: %v", after)
	}
	testcheck.NoError(t, leases.Delete(t.Context(), "node-1", metav1.DeleteOptions{}))
	w.pass(10 * time.Second)
	if lease := w.lease(); lease == nil || lease.UID == before.UID {
		t.Errorf("after its deletion: %v", lease)
	}
}

// TestNodeLeaseGoesWithTheNode deletes the Node. The garbage collector then deletes the Lease, which the kubelet creates again
// when it has registered the node.
func TestNodeLeaseGoesWithTheNode(t *testing.T) {
	w := newLeaseWorld(t)
	uid := w.lease().UID
	testcheck.NoError(t, w.Client().CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{}))
	w.pass(time.Minute)
	if lease := w.lease(); lease != nil {
		t.Fatalf("lease of a node that does not exist: %v", lease)
	}
	testcheck.NoError(t, w.Crash("kubelet(node-1)"))
	w.rest()
	node, _ := w.Server().Get("nodes", "", "node-1")
	if lease := w.lease(); lease == nil || lease.UID == uid || lease.OwnerReferences[0].UID != node.GetUID() {
		t.Errorf("after the registration: %v", lease)
	}
}

// TestNodeLeaseIsRetried lets requests for the Lease fail for a while.
func TestNodeLeaseIsRetried(t *testing.T) {
	var failing bool
	var tried []time.Duration
	var w *world
	w = newLeaseWorld(t, func(cfg *cluster.Config) {
		cfg.Interceptors.Client = func(component string, client *fake.Clientset) *fake.Clientset {
			if component != "kubelet(node-1)" {
				return client
			}
			return client.WithInterceptor(fake.InterceptorFunc(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				if !failing || r.Resource.Resource != "leases" {
					return serve()
				}
				if r.Verb == "get" {
					tried = append(tried, w.now())
				}
				return nil, apierrors.NewInternalError(errors.New("etcd is down"))
			}))
		}
	})
	w.pass(5 * time.Second)
	next := w.lease().Spec.RenewTime.Sub(sim.Epoch) + 10*time.Second
	failing = true
	w.pass(40 * time.Second)
	for i, wait := range []time.Duration{0, 200, 400, 800, 1600, 3200, 6400, 7000, 7000} {
		next += wait * time.Millisecond
		if i >= len(tried) || tried[i] != next {
			t.Fatalf("tried at %v; want attempt %d at %v", tried, i, next)
		}
	}
	failing = false
	w.pass(10 * time.Second)
	w.expectRenewed("after the failures", tried[len(tried)-1]+7*time.Second)
}

// TestNodeLeaseIsDeterministic compares the traces of two worlds, and of one in which two kubelets of a node run.
func TestNodeLeaseIsDeterministic(t *testing.T) {
	var traces []string
	for range 2 {
		w := newLeaseWorld(t)
		testcheck.NoError(t, w.Replicate("kubelet(node-1)"))
		w.pass(45 * time.Second)
		traces = append(traces, w.Trace().Text())
		renewals := 0
		for _, r := range w.Trace().Records() {
			if r.Verb == "update" && r.Object == "leases/kube-node-lease/node-1" && r.Err == nil {
				renewals++
			}
		}
		if renewals < 8 {
			t.Errorf("%d renewals by two kubelets in 45 s, want at least 8", renewals)
		}
	}
	testcheck.Equal(t, "trace", traces[0], traces[1])
}

func TestNodeLeaseUnderSchedules(t *testing.T) {
	for seed := range uint64(20) {
		w := newLeaseWorld(t, func(cfg *cluster.Config) { cfg.Stepped.Chooser = sim.NewSeeded(seed) })
		w.create("web", "data")
		w.pass(time.Minute)
		lease := w.lease()
		if lease == nil {
			t.Fatalf("seed %d: no lease", seed)
		}
		if age := w.now() - lease.Spec.RenewTime.Sub(sim.Epoch); age > 10*time.Second {
			t.Errorf("seed %d: renewed %v ago", seed, age)
		}
	}
}
