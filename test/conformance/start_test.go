package conformance_test

import (
	"context"
	"testing"

	"github.com/volsim/volsim/cluster"
)

// BenchmarkStart measures a live start: from nothing to a serving API server with registered nodes
// and driver, and idle controllers.
func BenchmarkStart(b *testing.B) {
	ctx := context.Background()
	for b.Loop() {
		c, err := cluster.New(cluster.Config{Devices: cluster.Array})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Start(ctx); err != nil {
			b.Fatal(err)
		}
		if err := c.Run(ctx); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
