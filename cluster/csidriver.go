package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins/csi"
)

// A csiDriver is a CSI driver that is installed in the cluster.
type csiDriver struct {
	Driver
	builtIn    bool                     // it is that of Config.Devices
	devices    bool                     // its volumes are known to Cluster.driver
	className  string                   // of its storage class; "": it is a driver of the user's own
	controller grpc.ClientConnInterface // nil: it has no controller service
	stopped    atomic.Bool              // its controller is stopped; see StopDriver
	has        capabilities
	snapshots  bool        // see Config.Snapshots
	monitored  bool        // see Config.HealthMonitor
	server     *csi.Server // of the controller; nil: there is none
	life       *driverLife // of the controller; nil: it is not in this program
	programs   programs
}

// capabilities are what a driver reports of itself.
type capabilities struct {
	controller []csispec.ControllerServiceCapability_RPC_Type
	topology   bool
	groups     bool // of snapshots; known for the drivers of the cluster's devices
}

// can reports whether the controller service has a capability.
func (c *capabilities) can(capability csispec.ControllerServiceCapability_RPC_Type) bool {
	return slices.Contains(c.controller, capability)
}

// component returns the name of one of the driver's sidecars.
func (d *csiDriver) component(kind string) string {
	if d.builtIn {
		return kind
	}
	return kind + "(" + d.Name + ")"
}

// installDrivers connects to the controllers of all drivers, that of the devices first.
func (c *Cluster) installDrivers(cfg Config) error {
	if !cfg.WithoutDriver {
		own := &csiDriver{
			Driver: c.builtInDriver(), builtIn: true, className: ClassName, snapshots: cfg.Snapshots, monitored: cfg.HealthMonitor,
		}
		own.has.topology = c.driver.topology()
		var err error
		if own.controller, own.server, err = c.connect(c.driver.controller); err != nil {
			return err
		}
		if cfg.Snapshots {
			if own.has.groups, err = own.takesGroups(context.Background()); err != nil {
				return err
			}
		}
		c.drivers = append(c.drivers, own)
	}
	drivers := cfg.Drivers
	block, _ := c.driver.(*blockDriver)
	if block != nil {
		drivers = slices.Concat(block.moreDrivers(), cfg.Drivers)
	}
	for i, d := range drivers {
		d.Sidecars.LeaderElection = d.Sidecars.LeaderElection || cfg.LeaderElection
		d.Sidecars.User = cmp.Or(d.Sidecars.User, cfg.SidecarUser)
		if err := d.check(c.driverNames()); err != nil {
			return err
		}
		if err := c.checkOutside(&d); err != nil {
			return fmt.Errorf("driver %s: %w", d.Name, err)
		}
		installed := &csiDriver{Driver: d, snapshots: cfg.Snapshots, monitored: cfg.HealthMonitor}
		if installed.devices = block != nil && i < len(block.more); installed.devices {
			installed.className = string(block.more[i].kind)
		}
		c.drivers = append(c.drivers, installed)
		if err := c.startController(installed); err != nil {
			return fmt.Errorf("driver %s: %w", d.Name, err)
		}
		err := installed.ask(context.Background())
		if err == nil && installed.devices && cfg.Snapshots {
			installed.has.groups, err = installed.takesGroups(context.Background())
		}
		if err != nil {
			return fmt.Errorf("driver %s: %w", d.Name, err)
		}
	}
	return nil
}

// builtInDriver returns the driver of Config.Devices.
func (c *Cluster) builtInDriver() Driver {
	return Driver{
		Name: c.driver.name(),
		Node: func(at DriverNode) (func(grpc.ServiceRegistrar), error) {
			n, err := c.node(at.Name)
			if err != nil {
				return nil, err
			}
			return n.services, nil
		},
		Sidecars: Sidecars{StrictTopology: c.driver.topology(), Capacity: c.storageCapacity, LeaderElection: c.leaderElection, User: c.sidecarUser},
	}
}

// driverNames returns the names of the installed drivers.
func (c *Cluster) driverNames() []string {
	names := make([]string, len(c.drivers))
	for i, d := range c.drivers {
		names[i] = d.Name
	}
	return names
}

// installed returns a driver; nil if the cluster does not have it.
func (c *Cluster) installed(name string) *csiDriver {
	for _, d := range c.drivers {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// startController starts the services of a driver's controller, again if they run. Connections to it
// stay valid.
func (c *Cluster) startController(d *csiDriver) error {
	var conn grpc.ClientConnInterface
	if d.Controller != nil {
		d.life = c.newDriverLife(d.eventName())
		register, err := d.life.setUp(d.Controller, DriverNode{})
		if err != nil {
			return err
		}
		if conn, d.server, err = c.connect(register); err != nil {
			return err
		}
		conn = d.life.conn(conn)
	} else if outside, err := c.dialController(d); err != nil || outside == nil {
		return err
	} else {
		conn = outside
	}
	var err error
	c.controllers.Put(d.Name, conn)
	d.controller, err = c.controllers.Dial(d.Name)
	return err
}

// controllers are the controllers of drivers, by name, as if they had sockets.
type controllers struct{ pluginmanager.Memory }

// ask asks the driver for its name and capabilities. A driver without an identity service has the name
// of its configuration and no topology.
func (d *csiDriver) ask(ctx context.Context) error {
	if d.controller == nil {
		return nil
	}
	identity := csispec.NewIdentityClient(d.controller)
	info, err := identity.GetPluginInfo(ctx, &csispec.GetPluginInfoRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
	case err != nil:
		return fmt.Errorf("GetPluginInfo: %w", err)
	case info.GetName() != d.Name:
		return fmt.Errorf("its GetPluginInfo returns the name %q", info.GetName())
	}
	plugin, err := identity.GetPluginCapabilities(ctx, &csispec.GetPluginCapabilitiesRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return fmt.Errorf("GetPluginCapabilities: %w", err)
	}
	d.has.topology = hasTopology(plugin)
	controller, err := csispec.NewControllerClient(d.controller).ControllerGetCapabilities(ctx, &csispec.ControllerGetCapabilitiesRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return fmt.Errorf("ControllerGetCapabilities: %w", err)
	}
	for _, each := range controller.GetCapabilities() {
		d.has.controller = append(d.has.controller, each.GetRpc().GetType())
	}
	return nil
}

// hasTopology reports whether the volumes of a driver are not accessible everywhere.
func hasTopology(plugin *csispec.GetPluginCapabilitiesResponse) bool {
	return slices.ContainsFunc(plugin.GetCapabilities(), func(p *csispec.PluginCapability) bool {
		return p.GetService().GetType() == csispec.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS
	})
}

// object returns the driver's CSIDriver.
func (d *csiDriver) object() *storagev1.CSIDriver {
	if d.CSIDriver != nil {
		return d.CSIDriver.DeepCopy()
	}
	attach := d.has.can(csispec.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	object := &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attach},
	}
	if d.Sidecars.Capacity > 0 {
		published := true
		object.Spec.StorageCapacity = &published
	}
	return object
}

// objects returns the objects of a driver of the user's own, which exist from the beginning.
func (d *csiDriver) objects() []runtime.Object {
	all := []runtime.Object{d.object()}
	for _, class := range d.Classes {
		class = class.DeepCopyObject()
		switch class := class.(type) {
		case *storagev1.StorageClass:
			if class.Provisioner == "" {
				class.Provisioner = d.Name
			}
		case *storagev1.VolumeAttributesClass:
			if class.DriverName == "" {
				class.DriverName = d.Name
			}
		}
		all = append(all, class)
	}
	return all
}

// leaks returns the volumes that a driver of the user's own still has, according to its Backend or, without
// one, to its ListVolumes.
func (d *csiDriver) leaks() ([]string, error) {
	var leaks []string
	switch {
	case d.builtIn, d.devices:
	case d.Backend != nil:
		for _, v := range d.Backend.Volumes() {
			leaks = append(leaks, fmt.Sprintf("volume %s (%s) of driver %s", v.Handle, v.Name, d.Name))
		}
	case d.has.can(csispec.ControllerServiceCapability_RPC_LIST_VOLUMES) && !d.stopped.Load():
		volumes, err := csireq.ListVolumes(context.Background(), csispec.NewControllerClient(d.controller))
		if err != nil {
			return nil, fmt.Errorf("driver %s: ListVolumes: %w", d.Name, err)
		}
		for _, v := range volumes {
			leaks = append(leaks, fmt.Sprintf("volume %s of driver %s", v.GetVolumeId(), d.Name))
		}
	}
	return leaks, nil
}
