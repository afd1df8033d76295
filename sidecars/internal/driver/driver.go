package driver

import (
	"context"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Driver is one driver's controller service. It belongs to the strands of one component.
type Driver struct {
	csispec.ControllerClient
	name         string
	capabilities Capabilities // nil: not asked for yet
}

// Capabilities is what a driver's controller service can do.
type Capabilities map[csispec.ControllerServiceCapability_RPC_Type]bool

// New makes the driver behind a connection each call of which leaves the component.
func New(name string, conn grpc.ClientConnInterface) *Driver {
	return &Driver{ControllerClient: csispec.NewControllerClient(conn), name: name}
}

// Capabilities asks the driver what it can do, the first time; that leaves the component. Afterwards it answers at once:
// a driver's capabilities do not change while it runs. Without a controller service there are none.
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
