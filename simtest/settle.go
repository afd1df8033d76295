package simtest

import (
	"testing"

	"github.com/volsim/volsim/cluster"
)

// WaitFor runs the world until an object meets a condition of the form of kubectl wait's flag --for,
// such as "condition=Ready", "jsonpath={.status.phase}=Running" or "delete"; see
// cluster.Cluster.WaitFor. Otherwise it ends the test with the likely cause: in a stepped world as soon
// as nothing more can happen, in a live one after a minute. A User calls the methods of the cluster
// instead.
func WaitFor(t testing.TB, c *cluster.Cluster, resource, namespace, name, condition string) {
	t.Helper()
	ctx, cancel := limited(t, c)
	defer cancel()
	if err := c.WaitFor(ctx, resource, namespace, name, condition); err != nil {
		t.Fatal(err)
	}
}

// Settle runs the world until its users have returned and the control plane has nothing left to do.
// A stepped world then is at rest: no component can act, not even one of the test. In a live world
// nothing shows whether such a component, or a claim, has work left: use WaitFor for its result.
//
// A user's error ends the test. So does anything still pending, with the likely cause: objects that
// are being deleted, pods that do not run, volumes that must be released. In a live world this takes a
// minute.
func Settle(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := limited(t, c)
	defer cancel()
	err := c.Run(ctx)
	if err == nil {
		err = c.WaitForRest(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}
