package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/internal/arrayhealth"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

func arrayKind() driverKind {
	return driverKind{
		name: "array", driverName: array.DriverName, usable: func() error { return nil }, open: openArray,
		short: "Run a driver with volumes in memory",
		long: "Volumes, and the directories in which they are mounted, are kept in the memory of this process. CSI clients can use\n" +
			"the driver without root. Pods cannot see the volumes, and all volumes are lost when the process exits.",
		example: "  volsim driver array --endpoint unix:///tmp/csi.sock --node-id node-1 --verbose",
		flags: func(flags *pflag.FlagSet, o *driverOptions) {
			flags.IntVar(&o.volumesPerNode, "volumes-per-node", 0,
				"maximum number of volumes attached to a node; 0 means unlimited")
		},
	}
}

func openArray(_ context.Context, o driverOptions) (*openDriver, error) {
	all := array.New(array.Config{DriverName: o.name, VolumesPerNode: o.volumesPerNode})
	services := arrayhealth.New(all)
	none := func(context.Context) ([]string, error) { return nil, nil }
	return &openDriver{
		warning: "volumes and mounts are in memory: pods cannot see them, and they are lost when this process exits",
		recover: none, orphans: none, close: func() error { return nil },
		register: func(server grpc.ServiceRegistrar) {
			csi.RegisterIdentityServer(server, all.Identity())
			csi.RegisterControllerServer(server, services.Controller())
			csi.RegisterGroupControllerServer(server, all.GroupController())
			csi.RegisterNodeServer(server, services.Node(o.node, nodefs.NewMemory("/")))
		},
	}, nil
}
