package main

import (
	"context"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/nodefs"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/blockcsi"
	"github.com/volsim/volsim/plugins/blockcsi/health"
	"github.com/volsim/volsim/plugins/loop"
)

// driverKind is a driver that "volsim driver" can run.
type driverKind struct {
	name, short, long, example string
	// driverName is the name that storage classes use.
	driverName string
	// onDevices says that volumes are devices of this machine, kept in a directory.
	onDevices bool
	// open makes the driver, and calls nothing of it.
	open func(driverOptions) (*openDriver, error)
}

// openDriver is a driver, ready to be recovered and served.
type openDriver struct {
	// notice is what a user must know about it; "" is nothing.
	notice string
	// usable returns nil where the driver can work, else what is missing.
	usable func() error
	// recover finishes or undoes what a driver that was killed had begun, a line each.
	recover func(context.Context) ([]string, error)
	// orphans lists what belongs to no volume, a line each.
	orphans func(context.Context) ([]string, error)
	// offer adds the driver's services to a server.
	offer func(grpc.ServiceRegistrar)
}

// driverKinds are the drivers there are. A driver over blockcsi takes what loop
// takes here: a name, words, and an open that ends in openBlocks.
func driverKinds() []driverKind {
	return []driverKind{
		{
			name: "loop", driverName: loop.DriverName, onDevices: true, open: openLoop,
			short: "Volumes that are loop devices over files of this machine",
			long: "A volume is a sparse file below --state, and a loop device wherever it is used. What is asked of the driver is in the\n" +
				"files and the devices themselves: killed at any moment and started again, it goes on where it was. It needs root.\n\n" +
				"When it is stopped, volumes that are in use stay in use. A second driver on the same --state is refused.",
			example: "  volsim driver loop --state /var/lib/volsim --endpoint unix:///var/lib/kubelet/plugins/loop.csi.volsim.dev/csi.sock \\\n" +
				"      --kubelet-registration /var/lib/kubelet/plugins_registry/loop.csi.volsim.dev-reg.sock\n\n" +
				"  volsim driver loop --state /var/lib/volsim --orphans",
		},
		{
			name: "array", driverName: array.DriverName, open: openArray,
			short: "Volumes that are kept in memory, with nothing on this machine",
			long: "The volumes of the array, and the node's directories in which they are mounted, are in the memory of this process: a\n" +
				"program that speaks CSI can be tried on it without root, but a pod sees nothing of them, and they are gone when it ends.",
			example: "  volsim driver array --endpoint unix:///tmp/csi.sock --node-id node-1 --verbose",
		},
	}
}

func openLoop(o driverOptions) (*openDriver, error) {
	cfg := loop.Config{
		DriverName: o.name, Dir: filepath.Join(o.state, "volumes"),
		TopologyKey: o.topologyKey, NodeAttaches: o.nodeAttaches, MountGroup: o.mountGroup,
	}
	if o.topologyKey != "" {
		cfg.Node = o.node
	}
	driver, err := loop.New(cfg)
	if err != nil {
		return nil, err
	}
	return openBlocks(driver.Driver, loop.Probe, o)
}

// openBlocks is what drivers on block devices of this machine have in common.
func openBlocks(driver *blockcsi.Driver, usable func() error, o driverOptions) (*openDriver, error) {
	root, err := nodefs.NewReal(o.root)
	if err != nil {
		return nil, err
	}
	services := health.New(driver, health.Config{})
	return &openDriver{
		usable: usable, recover: driver.Recover, orphans: driver.Orphans,
		offer: func(server grpc.ServiceRegistrar) {
			csi.RegisterIdentityServer(server, driver.Identity())
			csi.RegisterControllerServer(server, services.Controller())
			csi.RegisterNodeServer(server, services.Node(o.node, root))
		},
	}, nil
}

func openArray(o driverOptions) (*openDriver, error) {
	all := array.New(array.Config{DriverName: o.name, VolumesPerNode: o.volumesPerNode})
	none := func(context.Context) ([]string, error) { return nil, nil }
	return &openDriver{
		notice: "volumes and mounts are in memory: no pod sees them, and they are gone when this process ends",
		usable: func() error { return nil }, recover: none, orphans: none,
		offer: func(server grpc.ServiceRegistrar) {
			csi.RegisterIdentityServer(server, all.Identity())
			csi.RegisterControllerServer(server, all.Controller())
			csi.RegisterNodeServer(server, all.Node(o.node, nodefs.NewMemory("/")))
		},
	}, nil
}
