package driver

import (
	"context"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Driver is the controller service of one driver. It belongs to the tasks of one process.
type Driver struct {
	csispec.ControllerClient
	Conn         grpc.ClientConnInterface // its connection
	name         string
	capabilities Capabilities // nil: not requested yet
}

// Capabilities holds the capabilities of a driver's controller service.
type Capabilities map[csispec.ControllerServiceCapability_RPC_Type]bool

// New returns the driver at a connection whose calls leave the process.
func New(name string, conn grpc.ClientConnInterface) *Driver {
	return &Driver{ControllerClient: csispec.NewControllerClient(conn), Conn: conn, name: name}
}

// Capabilities returns the driver's capabilities. The first call leaves the process; later calls
// return the cached result, since a driver's capabilities do not change while it runs. A driver
// without a controller service has none.
func (d *Driver) Capabilities(ctx context.Context) (Capabilities, error) {
	if d.capabilities != nil {
		return d.capabilities, nil
	}
	response, err := d.ControllerGetCapabilities(ctx, &csispec.ControllerGetCapabilitiesRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return nil, fmt.Errorf("driver %s: ControllerGetCapabilities: %w", d.name, err)
	}
	capabilities := Capabilities{}
	for _, c := range response.GetCapabilities() {
		capabilities[c.GetRpc().GetType()] = true
	}
	d.capabilities = capabilities
	return capabilities, nil
}
