package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

func arrayKind() driverKind {
	return driverKind{
		name: "array", driverName: array.DriverName, usable: func() error { return nil }, open: openArray,
		short: "Volumes that are kept in memory, with nothing on this machine",
		long: "The volumes of the array, and the node's directories in which they are mounted, are in the memory of this process: a\n" +
			"program that speaks CSI can be tried on it without root, but a pod sees nothing of them, and they are gone when it ends.",
		example: "  volsim driver array --endpoint unix:///tmp/csi.sock --node-id node-1 --verbose",
		flags: func(flags *pflag.FlagSet, o *driverOptions) {
			flags.IntVar(&o.volumesPerNode, "volumes-per-node", 0, "how many volumes can be attached to a node; 0 is any number")
		},
	}
}

func openArray(_ context.Context, o driverOptions) (*openDriver, error) {
	all := array.New(array.Config{DriverName: o.name, VolumesPerNode: o.volumesPerNode})
	none := func(context.Context) ([]string, error) { return nil, nil }
	return &openDriver{
		warning: "volumes and mounts are in memory: no pod sees them, and they are gone when this process ends",
		recover: none, orphans: none, close: func() error { return nil },
		register: func(server grpc.ServiceRegistrar) {
			csi.RegisterIdentityServer(server, all.Identity())
			csi.RegisterControllerServer(server, all.Controller())
			csi.RegisterNodeServer(server, all.Node(o.node, nodefs.NewMemory("/")))
		},
	}, nil
}
