package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/volsim/volsim/plugins/loop"
)

func loopKind() driverKind {
	return driverKind{
		name: "loop", driverName: loop.DriverName, onDevices: true, usable: loop.Probe, open: openLoop,
		short: "Run a driver with volumes on loop devices",
		long: "Each volume is a file below --state, attached as a loop device while in use. The files and devices hold the whole state\n" +
			"of the driver: it can be killed at any moment and recovers when it is started again. It requires root.\n\n" +
			"Volumes in use stay in use when the driver stops. Only one driver can use a --state directory.",
		example: "  volsim driver loop --state /var/lib/volsim --endpoint unix:///var/lib/kubelet/plugins/loop.csi.volsim.dev/csi.sock \\\n" +
			"      --kubelet-registration /var/lib/kubelet/plugins_registry/loop.csi.volsim.dev-reg.sock\n\n" +
			"  volsim driver loop --state /var/lib/volsim --orphans",
		flags: func(flags *pflag.FlagSet, o *driverOptions) {
			flags.StringVar(&o.topologyKey, "topology-key", loop.DriverName+"/node",
				"topology `key` whose value is the node's name, because volumes exist on this node only; empty disables topology, for a cluster of one node")
			flags.StringVar(&o.reserve, "reserve", "", "`size` to keep free on the file system of --state (default 0)")
		},
	}
}

func openLoop(_ context.Context, o driverOptions) (*openDriver, error) {
	reserve, err := parseBytes("--reserve", o.reserve)
	if err != nil {
		return nil, err
	}
	cfg := loop.Config{
		DriverName: o.name, Dir: filepath.Join(o.state, "volumes"), ReserveBytes: reserve,
		TopologyKey: o.topologyKey, NodeAttaches: o.nodeAttaches, MountGroup: o.mountGroup,
	}
	if o.topologyKey != "" {
		cfg.Node = o.node
	}
	driver, err := loop.New(cfg)
	if err != nil {
		return nil, err
	}
	return openBlocks(driver.Driver, o, func() error { return nil })
}
