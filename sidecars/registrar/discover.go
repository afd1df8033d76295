package registrar

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// Discover returns a Registrar for the driver behind a connection, which it asks for its name.
// endpoint is the driver's socket as the kubelet sees it.
//
// Upstream: node-driver-registrar cmd/csi-node-driver-registrar main, --kubelet-registration-path.
func Discover(ctx context.Context, conn grpc.ClientConnInterface, endpoint string) (*Registrar, error) {
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("registrar: name of the driver: %w", err)
	}
	if info.GetName() == "" {
		return nil, errors.New("registrar: driver name is empty")
	}
	return New(info.GetName(), endpoint), nil
}
