package cluster

import (
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestKubeletConnectionsEnd: they end when the kubelet stops, and with the cluster.
func TestKubeletConnectionsEnd(t *testing.T) {
	c := testcheck.Must(New(Config{Nodes: 1, Containers: ShellContainers, Stepped: &sim.SteppedConfig{}}))
	testcheck.NoError(t, c.Start(t.Context()))
	ended := func(stopped <-chan struct{}) bool {
		select {
		case <-stopped:
			return true
		default:
			return false
		}
	}
	host := containerHost{c, "node-1"}
	first := host.Stopped()
	testcheck.Equal(t, "ended while the kubelet runs", false, ended(first))
	testcheck.NoError(t, c.Stop(kubeletName("node-1")))
	testcheck.Equal(t, "ended with the kubelet", true, ended(first))
	testcheck.NoError(t, c.Resume(kubeletName("node-1")))
	second := host.Stopped()
	testcheck.Equal(t, "ended after the restart", false, ended(second))
	testcheck.NoError(t, c.Close())
	testcheck.Equal(t, "ended with the cluster", true, ended(second))
}
