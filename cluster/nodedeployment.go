package cluster

import (
	"context"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/sidecars/provisioner"
)

// addNodeProvisioners adds the provisioners of the drivers that have one on each node; see Sidecars.NodeDeployment.
func (c *Cluster) addNodeProvisioners(cfg Config) error {
	for _, n := range c.nodes {
		for _, d := range n.drivers {
			if d.Sidecars.None || !d.Sidecars.NodeDeployment {
				continue
			}
			r, err := d.provisioner(context.Background())
			if err == nil {
				err = c.addComponent(cfg, r)
			}
			if err != nil {
				return fmt.Errorf("driver %s on %s: %w", d.Name, n.name, err)
			}
		}
	}
	return nil
}

// provisioner returns the provisioner on the node, after it has asked the driver for the node's topology. It calls
// the driver through its socket, which may be removed and created again.
func (d *nodeDriver) provisioner(ctx context.Context) (recipe, error) {
	info, err := csispec.NewNodeClient(d.conn).NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return recipe{}, fmt.Errorf("NodeGetInfo: %w", err)
	}
	plugin, err := csispec.NewIdentityClient(d.conn).GetPluginCapabilities(ctx, &csispec.GetPluginCapabilitiesRequest{})
	if err != nil {
		return recipe{}, fmt.Errorf("GetPluginCapabilities: %w", err)
	}
	conn, err := d.node.sockets.Memory.Dial(d.socket())
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		name: "provisioner(" + d.Name + "@" + d.node.name + ")", driver: d.Name, user: d.Sidecars.User, filters: d.provisionerFilters(),
		start: func(p ComponentContext) error {
			return d.startProvisionerAt(p, conn, hasTopology(plugin), &provisioner.NodeDeployment{
				Node: d.node.name, NodeID: info.GetNodeId(), Segments: info.GetAccessibleTopology().GetSegments(),
			})
		},
	}, nil
}
