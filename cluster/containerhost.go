package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/kubeletserver"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/sim"
)

// A containerHost is the kubelet of a node as the HTTP server of its containers sees it.
type containerHost struct {
	*Cluster
	name string // of the node
}

var _ kubeletserver.Host = containerHost{}

var aboutPod = kubeletQuestion{"find pod", "pod is looked up"}

// Pod asks the kubelet for a pod, and lets the world run until it answers.
func (h containerHost) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, bool, error) {
	pod, err := askKubelet(ctx, h.Cluster, h.name, aboutPod, func(k *kubelet.Kubelet, _ context.Context) *corev1.Pod {
		return k.Pod(namespace, name)
	})
	if err != nil {
		return nil, false, fmt.Errorf("kubelet of %s: %w", h.name, err)
	}
	return pod, pod != nil, nil
}

var aboutStdin = kubeletQuestion{"find stdin", "stdin is looked up"}

// Stdin asks the kubelet for what a run reads, and lets the world run until it answers.
func (h containerHost) Stdin(ctx context.Context, run container.Run) (*container.Input, error) {
	stdin, err := askKubelet(ctx, h.Cluster, h.name, aboutStdin, func(k *kubelet.Kubelet, _ context.Context) *container.Input {
		return k.Stdin(run)
	})
	if err != nil {
		return nil, fmt.Errorf("kubelet of %s: %w", h.name, err)
	}
	return stdin, nil
}

// Containers returns what runs the node's containers. nil: nothing does.
func (h containerHost) Containers() container.Runtime {
	n, err := h.node(h.name)
	if err != nil {
		return nil
	}
	return n.runtime()
}

// Now returns the time of the world.
func (h containerHost) Now() time.Time { return h.host.Now() }

// Stopped returns a channel that is closed when the kubelet has stopped.
func (h containerHost) Stopped() <-chan struct{} {
	n, err := h.node(h.name)
	if err != nil {
		return nil
	}
	if connections := n.connections.Load(); connections != nil {
		return connections.ended
	}
	return nil
}

// kubeletConnections are what a kubelet serves from a start to the next stop, if containers run.
type kubeletConnections struct {
	ended chan struct{} // closed by end
	end   func()        // may be called more than once
}

// newKubeletConnections returns connections that end with the kubelet's process.
func newKubeletConnections(p *sim.Process) *kubeletConnections {
	ended := make(chan struct{})
	k := &kubeletConnections{ended, sync.OnceFunc(func() { close(ended) })}
	p.OnCrash(k.end)
	return k
}

// endKubeletConnections ends the connections of all kubelets.
func (c *Cluster) endKubeletConnections() {
	for _, n := range c.nodes {
		if connections := n.connections.Load(); connections != nil {
			connections.end()
		}
	}
}
