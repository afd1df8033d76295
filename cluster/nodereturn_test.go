package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestDeadNodeOnBothHosts follows a pod of a StatefulSet whose node's kubelet stops and starts again, before or
// after the pod is evicted. The node is NotReady and tainted meanwhile. An evicted pod terminates until
// its kubelet is back and ends it. The live world runs in a bubble, so its clock does not depend on how
// busy the machine is.
func TestDeadNodeOnBothHosts(t *testing.T) {
	t.Parallel()
	for _, evicted := range []bool{false, true} {
		cfg := cluster.Config{NodeLeases: true, Devices: cluster.Array}
		t.Run(fmt.Sprintf("evicted=%v/live", evicted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testReturn(t, start(t, cfg), evicted) })
		})
		cfg.Stepped = &sim.SteppedConfig{}
		t.Run(fmt.Sprintf("evicted=%v/stepped", evicted), func(t *testing.T) {
			testReturn(t, start(t, cfg), evicted)
		})
	}
}

func testReturn(t *testing.T, c *cluster.Cluster, evicted bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of the world's time, if it is live
	defer cancel()
	set := newStatefulSet(1)
	if evicted {
		set.Spec.Template.Spec.Tolerations = shortTolerations()
	}
	must(t)(c.Client().AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{}))
	wait := func(resource, namespace, name, condition string) {
		t.Helper()
		testcheck.NoError(t, c.WaitFor(ctx, resource, namespace, name, condition))
	}
	wait("pods", "default", "web-0", "condition=Ready")
	testcheck.NoError(t, c.WriteFile("default", "web-0", "data", "file", []byte("written")))
	pods := c.Client().CoreV1().Pods("default")
	first := testcheck.Must(pods.Get(t.Context(), "web-0", metav1.GetOptions{}))
	node := first.Spec.NodeName
	wait("leases", corev1.NamespaceNodeLease, node, "create") // a node without one is not monitored
	testcheck.NoError(t, c.Stop("kubelet("+node+")"))
	wait("nodes", "", node, "condition=Ready=Unknown")
	testcheck.NoError(t, c.Wait(ctx, "the taints", func() bool { return len(taintsOf(c, node)) == 2 }))
	wait("pods", "default", "web-0", "condition=Ready=False")
	if evicted {
		wait("pods", "default", "web-0", "jsonpath={.metadata.deletionTimestamp}")
		wait("pods", "default", "web-0", "jsonpath={.status.phase}=Running")
	}
	testcheck.NoError(t, c.Resume("kubelet("+node+")"))
	wait("nodes", "", node, "condition=Ready")
	testcheck.NoError(t, c.Wait(ctx, "the taints to be removed", func() bool { return len(taintsOf(c, node)) == 0 }))
	testcheck.NoError(t, c.Wait(ctx, "the pod to be ready", func() bool {
		pod, ok := c.Server().Get("pods", "default", "web-0")
		return ok && (pod.GetUID() != first.UID) == evicted && isReady(pod.(*corev1.Pod))
	}))
	content, err := c.ReadFile("default", "web-0", "data", "file")
	testcheck.NoError(t, err)
	testcheck.Equal(t, "content", "written", string(content))
	if _, stepped := c.Host().(*sim.Stepped); stepped {
		testcheck.NoError(t, c.Run(t.Context()))
	}
	testcheck.NoError(t, c.Wait(ctx, "all work to be done", func() bool { return len(c.Pending()) == 0 }))
}

// shortTolerations let a pod be evicted 10 s after its node is dead.
func shortTolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		seconds := int64(10)
		all = append(all, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	return all
}

func taintsOf(c *cluster.Cluster, name string) []corev1.Taint {
	obj, _ := c.Server().Get("nodes", "", name)
	return obj.(*corev1.Node).Spec.Taints
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
