package cluster

import (
	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/sidecars/attacher"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sidecars/resizer"
)

// A sidecar is a helper controller of a driver's controller service.
type sidecar struct {
	recipe      // named without the driver
	needed bool // by the driver's capabilities
}

// sidecarComponents returns the sidecars of a driver. The driver of Config.Devices has all of them.
func (d *csiDriver) sidecarComponents(c *Cluster) []recipe {
	if d.Sidecars.None || d.controller == nil {
		return nil
	}
	var recipes []recipe
	for _, s := range d.sidecars() {
		if d.Sidecars.NodeDeployment && s.name == "provisioner" {
			continue
		}
		if d.builtIn || s.needed {
			r := s.recipe
			if d.Sidecars.LeaderElection {
				r = c.elect(r, leaseOf(r.name, d.Name))
			}
			r.name, r.driver, r.user = d.component(r.name), d.Name, d.Sidecars.User
			recipes = append(recipes, r)
		}
	}
	return recipes
}

func (d *csiDriver) sidecars() []sidecar {
	all := []sidecar{
		{
			recipe: recipe{name: "provisioner", filters: d.provisionerFilters(), start: d.startProvisioner},
			needed: d.has.can(csispec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME),
		},
		{
			recipe: recipe{name: "attacher", start: func(p ComponentContext) error {
				attacher.New(attacher.Config{
					Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, DriverName: d.Name,
					Conn: p.driverConn(d.Name, d.controller),
				})
				return nil
			}},
			needed: ptr.Deref(d.object().Spec.AttachRequired, true), // it answers also for a driver that need not
		},
		{
			recipe: recipe{name: "resizer", filters: resizerFilters, start: func(p ComponentContext) error {
				resizer.New(resizer.Config{
					Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, DriverName: d.Name,
					Recorder: p.Recorder("external-resizer " + d.Name), Conn: p.driverConn(d.Name, d.controller),
				})
				return nil
			}},
			needed: d.has.can(csispec.ControllerServiceCapability_RPC_EXPAND_VOLUME) ||
				d.has.can(csispec.ControllerServiceCapability_RPC_MODIFY_VOLUME),
		},
	}
	if d.snapshots {
		all = append(all, d.snapshotter())
	}
	if d.monitored {
		all = append(all, d.healthMonitor())
	}
	return all
}

// provisionerFilters returns the filters of a provisioner, nil without snapshots.
func (d *csiDriver) provisionerFilters() filterFunc {
	if !d.snapshots {
		return nil
	}
	return provisioner.Filters
}

func (d *csiDriver) startProvisioner(p ComponentContext) error {
	return d.startProvisionerAt(p, d.controller, d.has.topology, nil)
}

// startProvisionerAt starts a provisioner with a connection to the driver; on is nil if it is for all nodes.
func (d *csiDriver) startProvisionerAt(
	p ComponentContext, conn grpc.ClientConnInterface, topology bool, on *provisioner.NodeDeployment,
) error {
	cfg := provisioner.Config{
		Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, DriverName: d.Name,
		Recorder: p.Recorder(d.Name), Conn: p.driverConn(d.Name, conn), NodeDeployment: on,
		Topology: topology && !d.Sidecars.NoTopology, StrictTopology: d.Sidecars.StrictTopology,
		ExtraCreateMetadata: d.Sidecars.ExtraCreateMetadata,
	}
	if d.snapshots {
		client, err := p.dynamicClient()
		if err != nil {
			return err
		}
		cfg.Snapshots, cfg.Dynamic = true, client
	}
	if d.Sidecars.Capacity > 0 {
		cfg.CapacityNamespace, cfg.CapacityPollPeriod = metav1.NamespaceSystem, d.Sidecars.Capacity
	}
	_, err := provisioner.New(cfg)
	return err
}
