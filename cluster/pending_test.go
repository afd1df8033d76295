package cluster_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestDependentsArePending: a world is not at rest before the garbage collector has deleted what belonged to
// a deleted owner.
func TestDependentsArePending(t *testing.T) {
	onBothHosts(t, cluster.Config{Nodes: 1}, func(t *testing.T, c *cluster.Cluster) {
		must(t)(c.Client().CoreV1().PersistentVolumeClaims("default").Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
		deployments := c.Client().AppsV1().Deployments("default")
		must(t)(deployments.Create(t.Context(), newDeployment(2), metav1.CreateOptions{}))
		testcheck.NoError(t, c.WaitFor(limit(t), "deployments", "default", "web", "condition=Available"), c.Stop("garbagecollector"),
			deployments.Delete(t.Context(), "web", metav1.DeleteOptions{}),
			c.WaitForGone(limit(t), "deployments", "default", "web"))
		set := c.Server().List("replicasets")[0].GetName()
		want := "ReplicaSet default/" + set + " has no owner any more"
		if pending := c.Pending(); !slices.Contains(pending, want) {
			t.Errorf("%v, want %s", pending, want)
		}
		dependents := slices.Concat(c.Server().List("replicasets"), c.Server().List("pods"))
		testcheck.Equal(t, "dependents", 3, len(dependents))
		testcheck.NoError(t, c.Resume("garbagecollector"), c.WaitForRest(limit(t)))
		for i, obj := range dependents {
			resource := "pods"
			if i == 0 {
				resource = "replicasets"
			}
			if _, ok := c.Server().Get(resource, "default", obj.GetName()); ok {
				t.Errorf("%s is left", obj.GetName())
			}
		}
	})
}
