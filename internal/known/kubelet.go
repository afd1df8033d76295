package known

import (
	"context"
	"maps"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/nodefs"
)

// Publications are the NodePublishVolume requests of a node by target.
type Publications map[string]*csispec.NodePublishVolumeRequest

// WithMemory intercepts kubelets' driver calls. It calls mutate each time a kubelet starts, with
// the volumes that were published on its node before.
func WithMemory(mutate func(before Publications) Invoking) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		on := map[nodefs.FS]Publications{} // by disk, which identifies the node within its world
		now := map[string]Publications{}   // by kubelet
		return cluster.Interceptors{
			FS: func(process string, own nodefs.FS) nodefs.FS {
				if on[own] == nil {
					on[own] = Publications{}
				}
				now[process] = on[own]
				return own
			},
			Driver: func(process string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
				if !BelongsTo("kubelet", process) {
					return conn
				}
				made, broken := now[process], mutate(maps.Clone(now[process]))
				return Conn(conn, func(ctx context.Context, method string, args, reply any, invoke Invoke) error {
					err := broken(ctx, method, args, reply, invoke)
					if r, is := args.(*csispec.NodePublishVolumeRequest); is && err == nil {
						made[r.TargetPath] = r
					}
					return err
				})
			},
		}
	}
}

// unmountsFirst unpublishes the volumes that the previous kubelet published.
func unmountsFirst(before Publications) Invoking {
	return func(ctx context.Context, method string, args, reply any, invoke Invoke) error {
		for _, target := range slices.Sorted(maps.Keys(before)) {
			undo := &csispec.NodeUnpublishVolumeRequest{VolumeId: before[target].VolumeId, TargetPath: target}
			_ = invoke(ctx, csispec.Node_NodeUnpublishVolume_FullMethodName, undo,
				&csispec.NodeUnpublishVolumeResponse{})
		}
		clear(before)
		return invoke(ctx, method, args, reply)
	}
}
