package main

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/health"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A driverKind is a kind of driver that "volsim driver" can run.
type driverKind struct {
	name, short, long, example string
	// driverName is the name that storage classes use.
	driverName string
	// onDevices reports whether volumes are devices of this machine, kept in a directory.
	onDevices bool
	// flags adds the flags of this kind only.
	flags func(*pflag.FlagSet, *driverOptions)
	// check returns an error for invalid values of these flags; nil: there are none.
	check func(driverOptions) error
	// usable returns an error if the driver cannot work on this machine.
	usable func() error
	// open opens the driver. The caller holds the lock on its state.
	open func(context.Context, driverOptions) (*openDriver, error)
}

// An openDriver is a driver that is ready to recover and serve.
type openDriver struct {
	// warning is logged at the start; "" for none.
	warning string
	// recover completes or reverts the unfinished operations of a killed driver, and returns one
	// line for each.
	recover func(context.Context) ([]string, error)
	// orphans returns one line for each object that belongs to no volume.
	orphans func(context.Context) ([]string, error)
	// register adds the driver's services to a server.
	register func(grpc.ServiceRegistrar)
	// close releases the driver's resources; volumes remain.
	close func() error
}

// driverKinds returns the kinds of drivers. A new kind on blockcsi follows loopKind: help texts,
// flags, and an open function that ends in openBlocks.
func driverKinds() []driverKind {
	return []driverKind{loopKind(), lvmKind(), arrayKind()}
}

// openBlocks opens a driver on block devices of this machine.
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
