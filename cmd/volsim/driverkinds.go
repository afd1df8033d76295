package main

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/plugins/blockcsi"
	"github.com/volsim/volsim/plugins/blockcsi/health"
	"github.com/volsim/volsim/plugins/nodefs"
)

// driverKind is a driver that "volsim driver" can run.
type driverKind struct {
	name, short, long, example string
	// driverName is the name that storage classes use.
	driverName string
	// onDevices says that volumes are devices of this machine, kept in a directory.
	onDevices bool
	// flags adds those that this kind alone has.
	flags func(*pflag.FlagSet, *driverOptions)
	// usable returns nil where the driver can work, else what is missing.
	usable func() error
	// open makes the driver, whose state nobody else has.
	open func(context.Context, driverOptions) (*openDriver, error)
}

// openDriver is a driver, ready to be recovered and served.
type openDriver struct {
	// warning is what a user must know about it; "" is nothing.
	warning string
	// recover finishes or undoes what a driver that was killed had begun, a line each.
	recover func(context.Context) ([]string, error)
	// orphans lists what belongs to no volume, a line each.
	orphans func(context.Context) ([]string, error)
	// register adds the driver's services to a server.
	register func(grpc.ServiceRegistrar)
	// close gives back what the driver holds; volumes stay as they are.
	close func() error
}

// driverKinds are the drivers there are. One over blockcsi takes what loop takes:
// words, flags, and an open that ends in openBlocks.
func driverKinds() []driverKind {
	return []driverKind{loopKind(), lvmKind(), arrayKind()}
}

// openBlocks is what drivers on block devices of this machine have in common.
func openBlocks(driver *blockcsi.Driver, o driverOptions, closed func() error) (*openDriver, error) {
	root, err := nodefs.NewReal(o.root)
	if err != nil {
		return nil, errors.Join(err, closed())
	}
	services := health.New(driver, health.Config{})
	return &openDriver{
		recover: driver.Recover, orphans: driver.Orphans, close: closed,
		register: func(server grpc.ServiceRegistrar) {
			csi.RegisterIdentityServer(server, driver.Identity())
			csi.RegisterControllerServer(server, services.Controller())
			csi.RegisterGroupControllerServer(server, driver.GroupController())
			csi.RegisterNodeServer(server, services.Node(o.node, root))
		},
	}, nil
}
