package csi

import (
	"context"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/version"
)

// AddDriver registers a driver with the plugin only, not with the cluster.
func (p *Plugin) AddDriver(
	ctx context.Context, name string, conn grpc.ClientConnInterface,
) (*csispec.NodeGetInfoResponse, error) {
	info, err := csispec.NewNodeClient(conn).NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return nil, err
	}
	d, err := newNodeDriver(ctx, name, conn)
	if err != nil {
		return nil, err
	}
	d.version = version.MustParseGeneric("1.0.0")
	p.drivers[name] = d
	return info, nil
}

// Publish publishes a driver on the node.
func (p *Plugin) Publish(ctx context.Context, driver string, info *csispec.NodeGetInfoResponse) error {
	return p.install(ctx, driver, info)
}

// MarkMigrated updates the list of migrated plugins of a CSINode.
var MarkMigrated = markMigrated
