package simtest

import (
	"testing"

	"github.com/volsim/volsim/cluster"
)

// Apply creates or changes the objects of a manifest: several documents of any kind, in YAML or JSON.
// An error ends the test; it names the document and its line. See cluster.Cluster.Apply.
func Apply(t testing.TB, c *cluster.Cluster, manifest string) {
	t.Helper()
	if err := c.Apply(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
}
