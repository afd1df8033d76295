package cluster

import (
	"context"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// VolumeStats asks a node's kubelet for the usage of its pods' volumes, and lets the world run
// meanwhile. The error matches ErrUnknownComponent for an unknown node and for a kubelet that is
// down.
func (c *Cluster) VolumeStats(ctx context.Context, node string) (*stats.Summary, error) {
	n, err := c.node(node)
	if err != nil {
		return nil, err
	}
	p, err := c.component(kubeletName(node))
	if err != nil {
		return nil, err
	}
	process, k := p.process.Load(), n.kubelet.Load()
	if process == nil {
		return nil, ErrUnknownComponent
	}
	answer := make(chan *stats.Summary, 1)
	process.Spawn("stats", func(ctx context.Context) { answer <- k.Summary(ctx) })
	err = c.Wait(ctx, "volumes of "+node+" to be measured", func() bool { return len(answer) > 0 })
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}
