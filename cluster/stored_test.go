package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// TestStoredObjectsAreNotModified runs the life cycle of a volume, a restart of the driver and a
// reboot. Controllers and kubelets read the stored objects themselves.
func TestStoredObjectsAreNotModified(t *testing.T) {
	t.Parallel()
	c, err := cluster.New(cluster.Config{Nodes: 2, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	type commit struct{ stored, asItWas fake.Object }
	var commits []commit
	c.Server().OnCommit(func(to fake.Commit) {
		commits = append(commits, commit{to.After, to.After.DeepCopyObject().(fake.Object)})
	})
	if err := lifecycle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(string) error{
		func(node string) error { return c.StopDriver(node) }, func(node string) error { return c.StartDriver(node) }, c.Reboot,
	} {
		if err := step("node-1"); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitForRest(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(commits) == 0 {
		t.Error("nothing was written")
	}
	for _, to := range commits {
		if diff := cmp.Diff(to.asItWas, to.stored); diff != "" {
			t.Errorf("%T %s was modified after it was stored (-was +is):\n%s", to.stored, to.stored.GetName(), diff)
		}
	}
}
