package cluster

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/leaderelection"
)

// elect makes a component act only while it holds a Lease of kube-system.
func (c *Cluster) elect(r recipe, lease string) recipe {
	start := r.start
	r.start = func(p ComponentContext) error {
		identity := p.Process.Name()
		leaderelection.Run(leaderelection.Config{
			Process: p.Process, Client: p.Client, Recorder: p.Recorder(lease + "/" + identity),
			Namespace: metav1.NamespaceSystem, Name: lease, Identity: identity,
			Started: func() {
				if err := start(p); err != nil {
					panic(fmt.Errorf("cluster: start %s as the leader: %w", identity, err))
				}
			},
			Stopped: func() { c.restartLater(identity) },
		})
		return nil
	}
	return r
}

// restartLater restarts a component whose own task says so, as the kubelet does with a container whose program has
// ended. A process of its own does it.
func (c *Cluster) restartLater(component string) {
	c.host.Process("restart "+component).Spawn("", func(context.Context) {
		if err := c.Crash(component); err != nil && !errors.Is(err, ErrUnknownComponent) { // it is retired
			panic(fmt.Errorf("cluster: restart %s: %w", component, err))
		}
	})
}

// leaseOf returns the name of the Lease of a driver's sidecar; its kind is that of csiDriver.component.
//
// Upstream: cmd/csi-provisioner (external-provisioner 6.3), cmd/csi-attacher (external-attacher 4.13),
// cmd/csi-resizer (external-resizer 2.3), cmd/csi-snapshotter (external-snapshotter 8.7),
// cmd/csi-external-health-monitor-controller (0.18).
func leaseOf(kind, driver string) string {
	switch kind {
	case "provisioner":
		return driver
	case "attacher":
		return "external-attacher-leader-" + driver
	case "resizer":
		return "external-resizer-" + driver
	case snapshotterName:
		return "external-snapshotter-leader-" + driver
	default:
		return "external-health-monitor-leader-" + driver
	}
}
