package conformance_test

import (
	"context"
	"testing"

	"github.com/volsim/volsim/cluster"
)

// BenchmarkStart is from nothing to a serving API server with nodes and driver registered and all controllers idle, live.
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
