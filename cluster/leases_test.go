package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestLeasesOfALiveCluster starts a cluster on the wall clock, with the code of a stepped one.
func TestLeasesOfALiveCluster(t *testing.T) {
	c := testcheck.Must(cluster.New(cluster.Config{Devices: cluster.Array, NodeLeases: true}))
	defer func() { testcheck.NoError(t, c.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testcheck.NoError(t, c.Start(ctx), c.Wait(ctx, "leases", func() bool { return c.Server().Count("leases") == 2 }))
	for _, node := range []string{"node-1", "node-2"} {
		if _, ok := c.Server().Get("leases", corev1.NamespaceNodeLease, node); !ok {
			t.Errorf("no lease of %s", node)
		}
	}
	nodes := c.Client().CoreV1().Nodes()
	_, err := nodes.Patch(ctx, "node-1", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	testcheck.NoError(t, err, c.Wait(ctx, "node-1 to be tainted as unschedulable", func() bool {
		obj, _ := c.Server().Get("nodes", "", "node-1")
		return len(obj.(*corev1.Node).Spec.Taints) == 1
	}))
	if text := c.Trace().Text(); !strings.Contains(text, "kubelet(node-1)/node lease\tapi create leases/kube-node-lease/node-1") {
		t.Errorf("the creation is not in the trace:\n%s", text)
	}
}

// TestLeaseRenewalsAreOmitted checks which records a live world omits, on the trace of a stepped one.
func TestLeaseRenewalsAreOmitted(t *testing.T) {
	c := testcheck.Must(cluster.New(cluster.Config{Nodes: 1, NodeLeases: true, Stepped: &sim.SteppedConfig{}}))
	defer func() { testcheck.NoError(t, c.Close()) }()
	testcheck.NoError(t, c.Start(t.Context()))
	user := c.Host().Process("user")
	user.User("", func(context.Context) { user.Sleep(time.Minute) })
	testcheck.NoError(t, c.Run(t.Context()))
	omitted, requests := 0, []string{}
	for _, r := range c.Trace().Records() {
		switch {
		case cluster.IsLeaseRenewal(r):
			omitted++
		case strings.HasPrefix(r.Task, "kubelet(node-1)/node lease"):
			requests = append(requests, r.Action.String())
		}
	}
	const lease = "leases/kube-node-lease/node-1"
	testcheck.Equal(t, "requests", []string{"api get " + lease, "api get nodes/node-1", "api create " + lease}, requests)
	if omitted < 3*6 {
		t.Errorf("%d records omitted in a minute; want a timer, a sync and an update for each of 6 renewals", omitted)
	}
}
