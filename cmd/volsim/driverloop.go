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
		short: "Volumes that are loop devices over files of this machine",
		long: "A volume is a file below --state, and a loop device wherever it is used. What the driver is asked for stands in the\n" +
			"files and the devices themselves: killed at any moment and started again, it goes on where it was. It needs root.\n\n" +
			"When it is stopped, volumes that are in use stay in use. A second driver on the same --state is refused.",
		example: "  volsim driver loop --state /var/lib/volsim --endpoint unix:///var/lib/kubelet/plugins/loop.csi.volsim.dev/csi.sock \\\n" +
			"      --kubelet-registration /var/lib/kubelet/plugins_registry/loop.csi.volsim.dev-reg.sock\n\n" +
			"  volsim driver loop --state /var/lib/volsim --orphans",
		flags: func(flags *pflag.FlagSet, o *driverOptions) {
			flags.StringVar(&o.topologyKey, "topology-key", loop.DriverName+"/node",
				"`key` of the topology segment that is the node's name: volumes lie on this machine. Empty is no topology, for a cluster of one node")
			flags.StringVar(&o.reserve, "reserve", "", "`size` that is left free where --state lies: no volume is made into it (default none)")
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
